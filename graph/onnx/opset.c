/* opset.c - versions, and the functions that a model brings along. */
#include "graph/onnx/loader.h"

#include <limits.h>

static qn_status check_version(qn_loader *ld, const char *domain, int64_t version, const char *owner)
{
	if (version < 1)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s imports version %lld of domain '%s'", owner, (long long)version, domain);
	if (*domain)
		return QUERN_OK;
	if (version < QN_OLDEST_OPSET)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED,
			"%s uses opset %lld; %d is the oldest that is supported: convert it with "
			"onnx.version_converter, or export it again with a newer opset",
			owner, (long long)version, QN_OLDEST_OPSET);
	if (version > QN_KNOWN_OPSET)
		qn_log(ld->ctx, QUERN_LOG_WARN, "%s uses opset %lld; %d is the newest that is known", owner, (long long)version,
			QN_KNOWN_OPSET);
	return QUERN_OK;
}

qn_status qn_opsets_check(qn_loader *ld, qn_opsets o, const char *owner)
{
	qn_names *seen = qn_names_new(ld->tmp);
	for (size_t i = 0; i < o.n; i++) {
		const char *domain = qn_domain(o.list[i]->domain);
		const int64_t *other = qn_names_get(seen, domain);
		if (other && *other != o.list[i]->version)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s imports versions %lld and %lld of domain '%s'", owner, (long long)*other,
				(long long)o.list[i]->version, *domain ? domain : "ai.onnx");
		if (other)
			continue;
		qn_names_put(seen, domain, &o.list[i]->version);
		QN_TRY(check_version(ld, domain, o.list[i]->version, owner));
	}
	return QUERN_OK;
}

qn_status qn_model_versions(qn_loader *ld)
{
	const Qn__ModelProto *m = ld->model;
	if (!m->has_ir_version || m->ir_version < 1)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "is no ONNX model: it has no IR version");
	if (!m->graph)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "is no ONNX model: it has no graph");
	if (m->ir_version > QN_KNOWN_IR)
		qn_log(ld->ctx, QUERN_LOG_WARN, "the model has IR version %lld; %d is the newest that is known", (long long)m->ir_version,
			QN_KNOWN_IR);
	if (!m->n_opset_import)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT,
			"the model does not say which opset it uses (no opset_import); set it with "
			"onnx.helper.make_opsetid, or export it again");
	return qn_opsets_check(ld, (qn_opsets){m->opset_import, m->n_opset_import}, "the model");
}

static int version_in(qn_opsets o, const char *domain)
{
	for (size_t i = 0; i < o.n; i++)
		if (!strcmp(qn_domain(o.list[i]->domain), domain))
			return o.list[i]->version > INT_MAX ? INT_MAX : (int)o.list[i]->version;
	return 0;
}

int qn_opset_of(const qn_loader *ld, const Qn__FunctionProto *function, const char *domain)
{
	domain = qn_domain(domain);
	int version = function ? version_in((qn_opsets){function->opset_import, function->n_opset_import}, domain) : 0;
	return version ? version : version_in((qn_opsets){ld->model->opset_import, ld->model->n_opset_import}, domain);
}

static const char *function_key(qn_arena *a, const char *domain, const char *name, const char *overload)
{
	return qn_arena_printf(a, "%s\x02%s\x02%s", qn_domain(domain), qn_str(name), qn_str(overload));
}

qn_status qn_functions_collect(qn_loader *ld)
{
	ld->functions = qn_names_new(ld->tmp);
	for (size_t i = 0; i < ld->model->n_functions; i++) {
		const Qn__FunctionProto *f = ld->model->functions[i];
		const char *key = function_key(ld->tmp, f->domain, f->name, f->overload);
		if (qn_names_get(ld->functions, key))
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "function '%s' of domain '%s' is there twice", qn_str(f->name),
				qn_domain(f->domain));
		qn_function *item = QN_NEW(ld->tmp, qn_function, 1);
		item->proto = f;
		qn_names_put(ld->functions, key, item);
		const char *owner = qn_arena_printf(ld->tmp, "function '%s'", qn_str(f->name));
		QN_TRY(qn_opsets_check(ld, (qn_opsets){f->opset_import, f->n_opset_import}, owner));
	}
	return QUERN_OK;
}

qn_function *qn_function_find(const qn_loader *ld, const Qn__NodeProto *n)
{
	if (!ld->model->n_functions)
		return NULL;
	return qn_names_get(ld->functions, function_key(ld->tmp, n->domain, n->op_type, n->overload));
}
