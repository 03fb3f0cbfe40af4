/* emit_graph.c - walks a graph, lets each row write its statements, and puts graph.nnef together. */
#include "passes/nnef/emitter.h"

#include <stdio.h>

/* --- what is to be written ---------------------------------------------------------------------------------------- */
static bool is_needed(const qn_emitter *em, const qn_node *n)
{
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i] && em->needed[n->out[i]->id])
			return true;
	return false;
}

/* Backwards from the outputs; known values are written where they are used, so nothing behind them is needed. */
static void mark_needed(qn_emitter *em, const qn_graph *g)
{
	for (int i = 0; i < g->n_outputs; i++)
		em->needed[g->outputs[i]->id] = !qn_emit_known(g->outputs[i]);
	for (const qn_node *n = g->last; n; n = n->prev)
		for (int i = 0; i < n->n_in && is_needed(em, n); i++)
			if (n->in[i] && !qn_emit_known(n->in[i]))
				em->needed[n->in[i]->id] = true;
}

/* Every operator that has no form is named, not just the first. */
static qn_status check_rows(qn_emitter *em, const qn_graph *g)
{
	qn_text list = {.arena = em->arena};
	qn_names *seen = qn_names_new(em->arena);
	for (const qn_node *n = g->first; n; n = n->next) {
		if (n->op->emit || !is_needed(em, n))
			continue;
		const char *key = qn_arena_printf(em->arena, "%s:%s", n->domain, n->op_type);
		if (qn_names_get(seen, key))
			continue;
		qn_names_put(seen, key, em);
		int count = 0;
		for (const qn_node *m = n; m; m = m->next)
			count += m->op == n->op && is_needed(em, m);
		qn_text_add(&list, "%s%s%s%s (%d, first '%s')", list.len ? ", " : "", n->domain, *n->domain ? "." : "", n->op_type, count,
			n->name);
	}
	if (list.len)
		QN_FAIL(em->base.ctx, QUERN_ERR_UNSUPPORTED, "operators without an NNEF form: %s", list.s);
	return QUERN_OK;
}

typedef struct symbol_check {
	const char *dependent;
} symbol_check;

static void find_dependent(void *user, const char *text)
{
	symbol_check *c = user;
	if (*text == '?')
		c->dependent = text;
}

/* The engine needs a type and a rank for all, and sizes that only depend on those of the inputs. */
static qn_status check_fact(qn_emitter *em, const qn_value *v)
{
	qn_emit *e = &em->base;
	if (v->fact.type == QN_NONE || v->fact.shape.rank < 0)
		return qn_emit_fail(e, "the %s of '%s' is not known", v->fact.type == QN_NONE ? "type" : "rank", v->name);
	if (!qn_dtype_size(v->fact.type) || v->fact.type == QN_BF16 || v->fact.type == QN_DIM)
		return qn_emit_fail(e, "'%s' is of type %s, which the engine does not compute with", v->name, qn_dtype_name(v->fact.type));
	symbol_check c = {NULL};
	for (int i = 0; i < v->fact.shape.rank; i++) {
		qn_dim_each_symbol(v->fact.shape.dim[i], find_dependent, &c);
		if (c.dependent)
			return qn_emit_fail(e, "axis %d of '%s' has a size that depends on the data; export with a fixed size there", i,
				v->name);
	}
	return QUERN_OK;
}

/* --- inputs and outputs --------------------------------------------------------------------------------------------- */
/* Small types live inside a graph, in the plain type that holds them; a host could not tell what it is given. */
static qn_status check_port(qn_emitter *em, const qn_value *v, const char *what, const char *name)
{
	if (!qn_dtype_is_small(v->fact.type))
		return QUERN_OK;
	const char *node = v->producer ? qn_arena_printf(em->arena, " (of node '%s')", v->producer->name) : "";
	QN_FAIL(em->base.ctx, QUERN_ERR_UNSUPPORTED,
		"%s '%s'%s is of type %s, which the engine does not have: Cast or DequantizeLinear inside the model", what, name, node,
		qn_dtype_name(v->fact.type));
}

static qn_status emit_input(qn_emitter *em, qn_value *v)
{
	QN_TRY(check_fact(em, v));
	QN_TRY(check_port(em, v, "input", v->name));
	qn_emitted *x = &em->values[v->id];
	const char *shape = qn_emit_shape(&em->base, &v->fact.shape);
	qn_dtype t = v->fact.type;
	const char *generic = t == QN_F32 ? "scalar" : t == QN_I64 ? "integer" : t == QN_BOOL ? "logical" : NULL;
	if (generic)
		qn_text_add(&em->externals, "    %s = external<%s>(shape=%s);\n", x->id, generic, shape);
	else
		qn_text_add(&em->externals, "    %s = tract_core_external(shape=%s, datum_type='%s');\n", x->id, shape, qn_emit_dtype(t));
	x->defined = true;
	return em->status;
}

/* Outputs take their names before anything else can. A value that is an input under the same name needs no statement; one that has a
 * name already gets a copy at the end. */
static void name_ports(qn_emitter *em, const qn_graph *g, const char **out_ids)
{
	for (int i = 0; i < g->n_inputs; i++)
		em->values[g->inputs[i]->id].id = qn_emit_identifier(em, g->inputs[i]->name);
	for (int i = 0; i < g->n_outputs; i++) {
		qn_value *v = g->outputs[i];
		qn_emitted *x = &em->values[v->id];
		const char *name = g->output_names && g->output_names[i] ? g->output_names[i] : v->name;
		if (v->is_input && x->id && !strcmp(name, v->name)) {
			out_ids[i] = x->id;
			continue;
		}
		out_ids[i] = qn_emit_identifier(em, name);
		if (!qn_emit_known(v) && !x->id)
			x->id = out_ids[i];
	}
}

/* The second name of a value: the engine would give a plain copy the first one's name, so one that it keeps as a step of its own. */
static qn_status emit_copies(qn_emitter *em, const qn_graph *g, const char **out_ids)
{
	for (int i = 0; i < g->n_outputs; i++) {
		qn_value *v = g->outputs[i];
		if (!strcmp(out_ids[i], em->values[v->id].id ? em->values[v->id].id : ""))
			continue;
		QN_TRY(check_fact(em, v));
		const char *expr = qn_emit_ref(&em->base, v);
		if (qn_emit_known(v))
			qn_emit_statement(em, out_ids[i], expr);
		else if (v->is_input || v->fact.shape.rank == 0)
			qn_emit_port(em, out_ids[i], v->fact.type, expr);
		else
			qn_text_add(&em->body, "    %s = concat([%s], axis=0);\n", out_ids[i], expr);
		QN_TRY(em->status);
	}
	return QUERN_OK;
}

/* --- nodes --------------------------------------------------------------------------------------------------------- */
static qn_status emit_node(qn_emitter *em, const qn_node *n)
{
	em->base.node = n;
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i] && em->needed[n->out[i]->id])
			QN_TRY(check_fact(em, n->out[i]));
	qn_status st = n->op->emit(&em->base);
	QN_TRY(em->status); /* what a row could not return came first */
	QN_TRY(st);
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i] && em->needed[n->out[i]->id] && !em->values[n->out[i]->id].defined)
			QN_FAIL(em->base.ctx, QUERN_ERR_INTERNAL, "node '%s' (%s): output %d was not written", n->name, n->op_type, i);
	qn_arena_release(&em->node_scratch);
	return QUERN_OK;
}

/* --- the document ---------------------------------------------------------------------------------------------------- */
static void add_part(qn_text *doc, const qn_text *part, const char *before)
{
	if (part->len)
		qn_text_add(doc, "%s", before);
	if (part->len)
		qn_text_bytes(doc, part->s, part->len);
}

static void add_list(qn_text *doc, const char *const *ids, int n)
{
	qn_text_add(doc, "(");
	for (int i = 0; i < n; i++)
		qn_text_add(doc, "%s%s", i ? ", " : "", ids[i]);
	qn_text_add(doc, ")");
}

static qn_status write_document(qn_emitter *em, const qn_graph *g, const char **out_ids)
{
	qn_text doc = {.arena = em->arena};
	const char **in_ids = QN_NEW(em->arena, const char *, g->n_inputs);
	for (int i = 0; i < g->n_inputs; i++)
		in_ids[i] = em->values[g->inputs[i]->id].id;
	qn_text_add(&doc, "version 1.0;\nextension tract_registry tract_core;\n");
	if (em->transformers)
		qn_text_add(&doc, "extension tract_registry tract_transformers;\n");
	if (em->fragment_text.len)
		qn_text_add(&doc, "extension KHR_enable_fragment_definitions;\n");
	qn_text_add(&doc, "extension KHR_enable_operator_expressions;\n");
	add_part(&doc, &em->symbol_lines, "");
	add_part(&doc, &em->fragment_text, "\n");
	qn_text_add(&doc, "\ngraph %s", qn_emit_identifier(em, g->name && *g->name ? g->name : "model"));
	add_list(&doc, in_ids, g->n_inputs);
	qn_text_add(&doc, " -> ");
	add_list(&doc, out_ids, g->n_outputs);
	qn_text_add(&doc, "\n{\n");
	add_part(&doc, &em->externals, "");
	add_part(&doc, &em->variables, "");
	add_part(&doc, &em->body, em->externals.len || em->variables.len ? "\n" : "");
	qn_text_add(&doc, "}\n");
	if (!em->ar)
		return QUERN_OK;
	if (em->quantization.len)
		QN_TRY(qn_archive_add(em->ar, "graph.quant", em->quantization.s, em->quantization.len));
	return qn_archive_add(em->ar, "graph.nnef", doc.s, doc.len);
}

static void release_emitter(void *arg)
{
	qn_emitter *em = arg;
	qn_arena_release(&em->other);
	qn_arena_release(&em->weight);
	qn_arena_release(&em->node_scratch);
}

static qn_emitter *new_emitter(qn_ctx *ctx, qn_graph *g, qn_target target, qn_archive *ar, qn_arena *a)
{
	qn_emitter *em = QN_NEW(a, qn_emitter, 1);
	em->ar = ar;
	em->arena = a;
	qn_arena_init(&em->node_scratch, ctx);
	qn_arena_init(&em->weight, ctx);
	qn_arena_init(&em->other, ctx);
	qn_arena_defer(a, release_emitter, em);
	em->base = (qn_emit){.ctx = ctx, .graph = g, .arena = &em->node_scratch, .target = target, .emitter = em};
	qn_text *texts[] = {&em->externals, &em->variables, &em->body, &em->symbol_lines, &em->fragment_text, &em->quantization};
	for (size_t i = 0; i < QN_LEN(texts); i++)
		texts[i]->arena = a;
	qn_names **tables[] = {&em->ids, &em->labels, &em->symbols, &em->fragments, &em->stored};
	for (size_t i = 0; i < QN_LEN(tables); i++)
		*tables[i] = qn_names_new(a);
	em->values = QN_NEW(a, qn_emitted, g->n_values + 1);
	em->needed = QN_NEW(a, bool, g->n_values + 1);
	return em;
}

/* Constants are computed as they are written: this is where a compile spends its time. */
static qn_status emit_nodes(qn_emitter *em, const qn_graph *g)
{
	const qn_ctx *ctx = em->base.ctx;
	size_t total = 0, done = 0;
	for (const qn_node *n = g->first; n; n = n->next)
		total += is_needed(em, n);
	for (const qn_node *n = g->first; n; n = n->next) {
		if (!is_needed(em, n))
			continue;
		QN_TRY(emit_node(em, n));
		if (ctx->progress && !ctx->progress(ctx->progress_user, em->ar ? "write" : "count", ++done, total))
			QN_FAIL(em->base.ctx, QUERN_ERR_CANCELLED, "stopped while writing, at node '%s'", n->name);
	}
	em->base.node = NULL;
	return QUERN_OK;
}

static qn_status emit_all(qn_emitter *em, qn_graph *g)
{
	mark_needed(em, g);
	QN_TRY(check_rows(em, g));
	const char **out_ids = QN_NEW(em->arena, const char *, g->n_outputs);
	name_ports(em, g, out_ids);
	for (int i = 0; i < g->n_inputs; i++)
		QN_TRY(emit_input(em, g->inputs[i]));
	for (int i = 0; i < g->n_outputs; i++)
		QN_TRY(check_port(em, g->outputs[i], "output", g->output_names[i]));
	QN_TRY(emit_nodes(em, g));
	QN_TRY(emit_copies(em, g, out_ids));
	return write_document(em, g, out_ids);
}

/* bytes: of the variables. ar NULL: they are only counted. */
static qn_status emit(qn_ctx *ctx, qn_graph *g, qn_target target, qn_archive *ar, uint64_t *bytes)
{
	if (target != QN_TARGET_TRACT)
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED,
			"standard NNEF without the engine's own operators cannot be written yet; use --target tract");
	qn_arena *a = QN_NEW(g->arena, qn_arena, 1); /* whoever drops the graph drops it, should this unwind */
	qn_arena_init(a, ctx);
	qn_arena_defer(g->arena, (void (*)(void *))qn_arena_release, a);
	qn_emitter *em = new_emitter(ctx, g, target, ar, a);
	qn_status st = emit_all(em, g);
	*bytes = em->bytes;
	qn_arena_release(a);
	return st;
}

qn_status qn_emit_graph(qn_ctx *ctx, qn_graph *g, qn_target target, qn_archive *ar)
{
	uint64_t bytes;
	return emit(ctx, g, target, ar, &bytes);
}

qn_status qn_emit_bytes(qn_ctx *ctx, qn_graph *g, qn_target target, uint64_t *bytes) { return emit(ctx, g, target, NULL, bytes); }
