/* emit_text.c - the calls of graph/emit.h that write statements and small expressions. */
#include "passes/nnef/emitter.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

qn_status qn_emit_fail(qn_emit *e, const char *fmt, ...)
{
	char text[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (!e->node)
		QN_FAIL(e->ctx, QUERN_ERR_UNSUPPORTED, "graph '%s': %s", e->graph->name, text);
	QN_FAIL(e->ctx, QUERN_ERR_UNSUPPORTED, "node '%s' (%s): %s", e->node->name, e->node->op_type, text);
}

const char *qn_emitter_fail(qn_emitter *em, qn_status status)
{
	if (em->status == QUERN_OK)
		em->status = status;
	return "failed";
}

/* --- dims and numbers ---------------------------------------------------------------------------------------- */
static const char *symbol_name(void *user, const char *text)
{
	qn_emitter *em = user;
	if (*text == '?')
		qn_emitter_fail(em, qn_emit_fail(&em->base, "a size depends on the data ('%s'); export with a fixed size there", text));
	return qn_emit_symbol(em, text);
}

/* The engine's parser has no minus before a name, and its dims no quotient by a name. */
static const char *for_engine(qn_emit *e, const char *text)
{
	qn_text t = {.arena = e->arena};
	for (const char *p = text; *p; p++) {
		bool starts = p == text || p[-1] == '(' || p[-1] == ',';
		if (*p == '-' && starts && !isdigit((unsigned char)p[1]))
			qn_text_add(&t, "0");
		if (*p == '/' && !isdigit((unsigned char)p[1]))
			qn_emitter_fail(e->emitter,
				qn_emit_fail(e, "size '%s': the engine divides sizes by numbers only; bind a symbol with --set", text));
		qn_text_bytes(&t, p, 1);
	}
	return t.s;
}

const char *qn_emit_dim(qn_emit *e, qn_dim d) { return for_engine(e, qn_dim_text(e->arena, d, symbol_name, e->emitter)); }

const char *qn_emit_shape(qn_emit *e, const qn_shape *s)
{
	if (s->rank < 0)
		return qn_emitter_fail(e->emitter, qn_emit_fail(e, "a shape of unknown rank is needed"));
	qn_text t = {.arena = e->arena};
	qn_text_add(&t, "[");
	for (int i = 0; i < s->rank; i++)
		qn_text_add(&t, "%s%s", i ? ", " : "", qn_emit_dim(e, s->dim[i]));
	qn_text_add(&t, "]");
	return t.s;
}

const char *qn_emit_ints(qn_emit *e, const int64_t *v, int n)
{
	qn_text t = {.arena = e->arena};
	qn_text_add(&t, "[");
	for (int i = 0; i < n; i++)
		qn_text_add(&t, "%s%lld", i ? ", " : "", (long long)v[i]);
	qn_text_add(&t, "]");
	return t.s;
}

const char *qn_emit_float(qn_emit *e, double v)
{
	float f = (float)v;
	if (isnan(f))
		return qn_emitter_fail(e->emitter, qn_emit_fail(e, "NaN where NNEF needs a number"));
	if (isinf(f))
		return f < 0 ? "-inf" : "inf";
	char *s = NULL;
	for (int digits = 6; digits <= 9; digits++) {
		s = qn_arena_printf(e->arena, "%.*g", digits, (double)f);
		if (strtof(s, NULL) == f)
			break;
	}
	for (char *p = s; *p; p++) /* the host's locale may have another decimal point */
		if (!strchr("0123456789+-e", *p))
			*p = '.';
	return strpbrk(s, ".e") ? s : qn_arena_printf(e->arena, "%s.0", s);
}

const char *qn_emit_dtype(qn_dtype t) { return qn_dtype_name(qn_dtype_plain(t)); }

void qn_emit_quantization(qn_emit *e, const char *id, float scale, int zero_point)
{
	qn_text_add(&e->emitter->quantization,
		"\"%s\": zero_point_linear_quantize(zero_point = %d, scale = %s, bits = 8, signed = true, symmetric = %s);\n", id, zero_point,
		qn_emit_float(e, scale), zero_point ? "false" : "true");
}

/* --- statements ------------------------------------------------------------------------------------------------ */
static bool is_identifier(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return !*s;
}

void qn_emit_statement(qn_emitter *em, const char *id, const char *expr)
{
	bool copy = is_identifier(expr) || strspn(expr, "0123456789.e+-") == strlen(expr);
	qn_text_add(&em->body, copy ? "    %s = copy(%s);\n" : "    %s = %s;\n", id, expr);
}

/* One node for one statement: operators that the engine wires as they are, on operands that have names already. */
static bool keeps_name(const char *expr)
{
	static const char *const single[] = {"tract_core_einsum", "softmax", "tract_core_log_softmax", "tract_core_rms_norm", "concat",
		"exp", "log", "sin", "cos", "abs", "neg", "sqrt", "rsqrt", "tanh", "sigmoid", "floor", "ceil", "round",
		"tract_core_erf", "tract_core_silu", "leaky_relu", "tract_core_cast"};
	size_t n = strcspn(expr, "("), length = strlen(expr);
	bool known = false;
	for (size_t i = 0; i < QN_LEN(single) && !known; i++)
		known = strlen(single[i]) == n && !strncmp(single[i], expr, n);
	if (!known || expr[length - 1] != ')' || strchr(expr + n + 1, '('))
		return false;
	for (const char *p = expr + n + 1; *p; p++) /* numbers are nodes, except as named parameters */
		if (isdigit((unsigned char)*p) && strchr("([, -.", p[-1]) && !memchr(expr, '=', (size_t)(p - expr)))
			return false;
	return !strpbrk(expr, "+*/^");
}

void qn_emit_port(qn_emitter *em, const char *id, qn_dtype type, const char *expr)
{
	if ((type != QN_F32 && type != QN_F16) || keeps_name(expr)) {
		qn_emit_statement(em, id, expr);
		return;
	}
	const char *from = expr;
	if (!is_identifier(expr)) {
		from = qn_emit_identifier(em, qn_arena_printf(em->base.arena, "%s_value", id));
		qn_emit_statement(em, from, expr);
	}
	qn_text_add(&em->body, "    %s = leaky_relu(%s, alpha=1.0);\n", id, from);
}

static const char *output_id(qn_emit *e, int i)
{
	qn_value *v = e->node->out[i];
	qn_emitted *x = &e->emitter->values[v->id];
	if (x->defined)
		qn_emitter_fail(e->emitter, qn_emit_fail(e, "output %d is written twice", i));
	if (!x->id)
		x->id = qn_emit_identifier(e->emitter, v->name);
	x->defined = true;
	return x->id;
}

void qn_emit_output(qn_emit *e, int i, const char *fmt, ...)
{
	if (i >= e->node->n_out || !e->node->out[i])
		return; /* an optional output that nobody wants */
	va_list args;
	va_start(args, fmt);
	const char *expr = qn_arena_vprintf(e->arena, fmt, args);
	va_end(args);
	const qn_value *v = e->node->out[i];
	const char *id = output_id(e, i);
	if (v->is_output)
		qn_emit_port(e->emitter, id, v->fact.type, expr);
	else
		qn_emit_statement(e->emitter, id, expr);
}

static const char *fresh(qn_emit *e, const char *hint)
{
	const char *base = e->node->name;
	for (int i = e->node->n_out - 1; i >= 0; i--)
		if (e->node->out[i]) {
			const char *id = e->emitter->values[e->node->out[i]->id].id;
			base = id ? id : e->node->out[i]->name;
		}
	return qn_emit_identifier(e->emitter, qn_arena_printf(e->arena, "%s_%s", base, hint));
}

const char *qn_emit_temp(qn_emit *e, const char *hint, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	const char *expr = qn_arena_vprintf(e->arena, fmt, args);
	va_end(args);
	const char *id = fresh(e, hint);
	qn_emit_statement(e->emitter, id, expr);
	return id;
}

void qn_emit_tuple(qn_emit *e, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	const char *expr = qn_arena_vprintf(e->arena, fmt, args);
	va_end(args);
	qn_text t = {.arena = e->arena};
	for (int i = 0; i < e->node->n_out; i++)
		qn_text_add(&t, "%s%s", i ? ", " : "", e->node->out[i] ? output_id(e, i) : fresh(e, "unused"));
	qn_text_add(&e->emitter->body, "    (%s) = %s;\n", t.s, expr);
}

void qn_emit_fragment(qn_emit *e, const char *name, const char *definition)
{
	qn_emitter *em = e->emitter;
	const char *former = qn_names_get(em->fragments, name);
	if (former) {
		if (strcmp(former, definition))
			qn_emitter_fail(em, qn_emit_fail(e, "two definitions of fragment '%s'", name));
		return;
	}
	const char *kept = qn_arena_strdup(em->arena, definition);
	qn_names_put(em->fragments, qn_arena_strdup(em->arena, name), (void *)(uintptr_t)kept);
	size_t n = strlen(kept);
	qn_text_add(&em->fragment_text, "%s%s", kept, n && kept[n - 1] == '\n' ? "" : "\n");
}

void qn_emit_transformers(qn_emit *e) { e->emitter->transformers = true; }

/* --- values ----------------------------------------------------------------------------------------------------- */
/* The identifier of a value that a statement has defined. */
static const char *defined_id(qn_emit *e, qn_value *v)
{
	qn_emitted *x = &e->emitter->values[v->id];
	if (x->defined)
		return x->id;
	qn_fail(e->ctx, QUERN_ERR_INTERNAL, "node '%s' reads '%s' before anything writes it", e->node ? e->node->name : "", v->name);
	return qn_emitter_fail(e->emitter, QUERN_ERR_INTERNAL);
}

const char *qn_emit_ref(qn_emit *e, qn_value *v)
{
	return qn_emit_known(v) ? qn_emit_known_ref(e->emitter, v, v->fact.shape.rank, false) : defined_id(e, v);
}

const char *qn_emit_ranked(qn_emit *e, qn_value *v, int rank)
{
	int own = v->fact.shape.rank;
	if (rank < own || own < 0 || rank > QN_MAX_RANK)
		return qn_emitter_fail(e->emitter, qn_emit_fail(e, "operand '%s' of rank %d is needed at rank %d", v->name, own, rank));
	if (qn_emit_known(v))
		return qn_emit_known_ref(e->emitter, v, rank, e->node && e->node->op->traits & QN_ELEMENTWISE);
	const char *id = defined_id(e, v);
	if (rank == own)
		return id;
	const char **cached = &e->emitter->values[v->id].ranked[rank];
	if (!*cached) {
		int64_t axes[QN_MAX_RANK];
		for (int i = 0; i < rank - own; i++)
			axes[i] = i;
		const char *expr = qn_arena_printf(e->arena, "unsqueeze(%s, axes=%s)", id, qn_emit_ints(e, axes, rank - own));
		*cached = qn_emit_identifier(e->emitter, qn_arena_printf(e->arena, "%s_rank%d", id, rank));
		qn_emit_statement(e->emitter, *cached, expr);
	}
	return *cached;
}
