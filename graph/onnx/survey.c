/* survey.c - every operator of a model that has no row, in one message. */
#include "graph/onnx/loader.h"

enum { MAX_LINES = 40, MAX_TEXT = 3600, MAX_NAME = 60 };

typedef struct entry {
	const char *domain, *op;
	int version, since; /* since: of a row that needs a newer version; 0 where there is no row */
	size_t count;
	const char *node;
} entry;

typedef struct survey {
	qn_loader *ld;
	entry *list;
	size_t n, cap;
	qn_names *known; /* position + 1 in the list, by operator and version */
	const Qn__FunctionProto **todo;
	size_t n_todo, cap_todo;
} survey;

static void note(survey *s, const Qn__NodeProto *n, int version, int since)
{
	qn_arena *tmp = s->ld->tmp;
	const char *domain = *qn_domain(n->domain) ? n->domain : "ai.onnx";
	const char *key = qn_arena_printf(tmp, "%s\x02%s\x02%d", domain, qn_str(n->op_type), version);
	size_t at = (size_t)(uintptr_t)qn_names_get(s->known, key);
	if (!at) {
		QN_GROW(tmp, s->list, s->n, s->cap);
		s->list[s->n++] = (entry){domain, qn_str(n->op_type), version, since, 0, qn_node_title(tmp, n)};
		at = s->n;
		qn_names_put(s->known, key, (void *)(uintptr_t)at);
	}
	s->list[at - 1].count++;
}

static qn_status visit_node(survey *s, const Qn__NodeProto *n, const Qn__FunctionProto *in)
{
	qn_loader *ld = s->ld;
	qn_function *f = qn_function_find(ld, n);
	if (f) {
		if (!f->surveyed) {
			QN_GROW(ld->tmp, s->todo, s->n_todo, s->cap_todo);
			s->todo[s->n_todo++] = f->proto;
		}
		f->surveyed = true;
		return QUERN_OK;
	}
	if (!*qn_str(n->op_type))
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' has no operator", qn_node_title(ld->tmp, n));
	const char *domain = qn_domain(n->domain);
	int version = qn_opset_of(ld, in, domain);
	if (!version && !*domain)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "node '%s' (%s) is of domain 'ai.onnx', whose version opset_import does not give",
			qn_node_title(ld->tmp, n), n->op_type);
	if (qn_is_constant(ld, n))
		return QUERN_OK;
	const qn_op *op = qn_op_find(domain, n->op_type);
	if (!op || (version && op->since > version))
		note(s, n, version ? version : 1, op ? op->since : 0);
	return QUERN_OK;
}

static qn_status visit_nodes(survey *s, Qn__NodeProto *const *nodes, size_t n, const Qn__FunctionProto *in)
{
	for (size_t i = 0; i < n; i++) {
		QN_TRY(visit_node(s, nodes[i], in));
		for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
			const Qn__AttributeProto *a = nodes[i]->attribute[k];
			if (a->g)
				QN_TRY(visit_nodes(s, a->g->node, a->g->n_node, in));
			for (size_t j = 0; j < a->n_graphs; j++)
				QN_TRY(visit_nodes(s, a->graphs[j]->node, a->graphs[j]->n_node, in));
		}
	}
	return QUERN_OK;
}

/* At most MAX_NAME bytes of a name, cut between characters. */
static const char *shortened(qn_arena *a, const char *name)
{
	size_t n = strlen(name);
	if (n <= MAX_NAME)
		return name;
	for (n = MAX_NAME; n && ((uint8_t)name[n] & 0xc0) == 0x80;)
		n--;
	return qn_arena_printf(a, "%.*s...", (int)n, name);
}

static bool is_quantized(const entry *e)
{
	static const char *const ops[] = {"QLinear", "MatMulInteger", "ConvInteger", "DynamicQuantize", "QGemm", "QAttention", "QMoE"};
	for (size_t i = 0; i < QN_LEN(ops); i++)
		if (!strncmp(e->op, ops[i], strlen(ops[i])))
			return true;
	return false;
}

static qn_status report(survey *s)
{
	qn_arena *tmp = s->ld->tmp;
	qn_text t = {.arena = tmp};
	qn_text_add(&t, s->n == 1 ? "1 operator is not supported:" : "%zu operators are not supported:", s->n);
	bool quantized = false;
	size_t i = 0;
	for (; i < s->n && i < MAX_LINES && t.len < MAX_TEXT; i++) {
		const entry *e = &s->list[i];
		qn_text_add(&t, "\n  %s:%s version %d, %zu node%s, such as '%s'", shortened(tmp, e->domain), shortened(tmp, e->op),
			e->version, e->count, e->count == 1 ? "" : "s", shortened(tmp, e->node));
		if (e->since)
			qn_text_add(&t, " (supported from version %d on)", e->since);
	}
	if (i < s->n)
		qn_text_add(&t, "\n  and %zu more", s->n - i);
	for (i = 0; i < s->n; i++)
		quantized |= is_quantized(&s->list[i]);
	if (quantized)
		qn_text_add(&t, "\nthe model is already quantized by another tool: give the float model that it was made from");
	QN_FAIL(s->ld->ctx, QUERN_ERR_UNSUPPORTED, "%s", t.s);
}

qn_status qn_survey(qn_loader *ld)
{
	survey s = {.ld = ld, .known = qn_names_new(ld->tmp)};
	QN_TRY(visit_nodes(&s, ld->model->graph->node, ld->model->graph->n_node, NULL));
	for (size_t i = 0; i < s.n_todo; i++)
		QN_TRY(visit_nodes(&s, s.todo[i]->node, s.todo[i]->n_node, s.todo[i]));
	return s.n ? report(&s) : QUERN_OK;
}
