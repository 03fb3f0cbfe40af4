/* weights.c - layers are rewritten to the operators of the form they got; weights become recipes that quantize when they are written.
 *
 * needs: widths. gives: target-level operators only. A fused layer whose parts have different forms is split by rows. */
#include "passes/config.h"
#include "passes/passes.h"
#include "passes/plan.h"

/* A stored weight: the float source (with the rows taken, NULL: all) and how it is rounded. */
typedef struct store {
	qn_value *source;
	const int64_t *rows;
	int64_t n, k;
	int bits;
	qn_form form;
	const quern_config *config;
} store;

/* The float rows, [n, k]. */
static qn_status source_rows(qn_graph *g, const store *s, qn_arena *scratch, const float **out)
{
	const qn_tensor *t;
	QN_TRY(qn_graph_load(g, s->source, scratch, &t));
	const float *all = qn_tensor_f32(scratch, t);
	*out = all;
	if (!s->rows)
		return QUERN_OK;
	float *taken = QN_NEW(scratch, float, s->n *s->k);
	for (int64_t i = 0; i < s->n; i++)
		memcpy(taken + i * s->k, all + s->rows[i] * s->k, (size_t)s->k * sizeof *taken);
	*out = taken;
	return QUERN_OK;
}

static qn_tensor *stored_tensor(const qn_fact *f, qn_arena *scratch)
{
	int64_t dim[QN_MAX_RANK];
	for (int i = 0; i < f->shape.rank; i++)
		dim[i] = f->shape.dim[i].k;
	return qn_tensor_new(scratch, f->type, f->shape.rank, dim);
}

typedef struct stored {
	store s;
	qn_value *value;
} stored;

static qn_status make_weight(qn_graph *g, void *arg, qn_arena *scratch, const qn_tensor **out)
{
	const stored *st = arg;
	const store *s = &st->s;
	const float *w;
	QN_TRY(source_rows(g, s, scratch, &w));
	qn_tensor *t = stored_tensor(&st->value->fact, scratch);
	void *data = (void *)(uintptr_t)t->data;
	qn_quant_report report;
	qn_q4_opts opts = {.percentile = s->config->percentile, .bits = s->bits < 4 ? s->bits : 4};
	float *scales;
	switch (s->form) {
	case QN_FORM_Q4_0:
		QN_TRY(qn_quantize_q4_0(g->ctx, w, s->n, s->k, s->config->rounding, &opts, data, &report));
		break;
	case QN_FORM_Q8_1:
		QN_TRY(qn_quantize_q8_1(g->ctx, w, s->n * s->k, data, &report));
		break;
	case QN_FORM_I8:
		scales = QN_NEW(scratch, float, s->n);
		QN_TRY(qn_quantize_i8_rows(g->ctx, w, s->n, s->k, s->bits, 1e-6f, data, scales, &report));
		break;
	case QN_FORM_F16:
		QN_TRY(qn_quantize_f16(g->ctx, w, s->n * s->k, data, &report));
		break;
	case QN_FORM_F32:
		memcpy(data, w, qn_tensor_bytes(t));
		break;
	}
	*out = t;
	return QUERN_OK;
}

static qn_value *stored_weight(qn_graph *g, const store *s)
{
	static const qn_dtype types[] = {[QN_FORM_Q4_0] = QN_Q4_0, [QN_FORM_Q8_1] = QN_Q8_1, [QN_FORM_I8] = QN_I8, [QN_FORM_F16] = QN_F16,
		[QN_FORM_F32] = QN_F32};
	qn_value *v = qn_graph_value(g, s->source->weight ? s->source->weight : s->source->name);
	stored *st = QN_NEW(g->arena, stored, 1);
	*st = (stored){*s, v};
	v->is_const = true;
	v->weight = s->source->weight;
	v->fact = (qn_fact){types[s->form], s->source->fact.shape, NULL};
	v->fact.shape.dim[0] = qn_dim_const(s->n);
	v->make = make_weight;
	v->make_arg = st;
	return v;
}

static qn_status row_scales(qn_graph *g, const store *s, qn_value **out)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const float *w;
	qn_status status = source_rows(g, s, &scratch, &w);
	if (status == QUERN_OK) {
		qn_quant_report report;
		int64_t n = s->n;
		qn_tensor *t = qn_tensor_new(g->arena, QN_F32, 1, &n);
		int8_t *codes = QN_NEW(&scratch, int8_t, s->n *s->k);
		status = qn_quantize_i8_rows(g->ctx, w, s->n, s->k, s->bits, 1e-6f, codes, (float *)(uintptr_t)t->data, &report);
		*out = qn_graph_const(g, qn_arena_printf(g->arena, "%s.scale", s->source->weight ? s->source->weight : s->source->name), t);
		(*out)->weight = (*out)->name;
	}
	qn_arena_release(&scratch);
	return status;
}

/* The rows of a bias that go with rows of a weight. */
static qn_status bias_rows(qn_graph *g, qn_value *bias, const store *s, qn_value **out)
{
	*out = bias;
	if (!bias || !s->rows)
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor *t;
	qn_status status = qn_graph_load(g, bias, &scratch, &t);
	if (status == QUERN_OK) {
		const float *all = qn_tensor_f32(&scratch, t);
		int64_t n = s->n;
		qn_tensor *taken = qn_tensor_new(g->arena, QN_F32, 1, &n);
		for (int64_t i = 0; i < s->n; i++)
			((float *)(uintptr_t)taken->data)[i] = all[s->rows[i]];
		*out = qn_graph_const(g, bias->name, taken);
		(*out)->weight = bias->weight;
	}
	qn_arena_release(&scratch);
	return status;
}

/* `n` becomes the operator for a stored form; n is a Linear, an Embedding, or another node that keeps its operator. */
static qn_status rewrite(qn_graph *g, qn_node *n, int weight_in, const store *s)
{
	if (s->form == QN_FORM_F32 && !s->rows)
		return QUERN_OK;
	if (s->form != QN_FORM_I8) {
		qn_node_set_input(g, n, weight_in, stored_weight(g, s));
		return QUERN_OK;
	}
	qn_value *in[4] = {n->in[0], stored_weight(g, s), NULL, qn_node_has_in(n, 2) ? n->in[2] : NULL};
	QN_TRY(row_scales(g, s, &in[2]));
	qn_node_become(g, n, qn_op_find("quern", "LinearI8Rows"), in, in[3] ? 4 : 3);
	return QUERN_OK;
}

static bool parts_differ(const qn_layer *l)
{
	int64_t rows = 0;
	bool differ = false;
	for (int i = 0; i < l->n_parts; i++) {
		rows += l->parts[i].n;
		differ |= l->parts[i].form != l->parts[0].form || l->parts[i].weight_bits != l->parts[0].weight_bits;
	}
	return differ && rows == l->n; /* each row in one part */
}

/* The parts' results in the order of the fused channels: a slice where the parts follow each other, else a gather. */
static qn_value *join(qn_graph *g, qn_node *n, const qn_layer *l, qn_value **parts)
{
	const qn_fact *f = &n->out[0]->fact;
	qn_value *y = qn_graph_apply(g, n, "Concat", qn_arena_printf(g->arena, "%s.joined", n->name), parts, l->n_parts);
	qn_node_set_int(g, y->producer, "axis", f->shape.rank - 1);
	y->fact = (qn_fact){f->type, f->shape, NULL};
	int64_t *place = QN_NEW(g->arena, int64_t, l->n), at = 0;
	bool in_order = true;
	for (int i = 0; i < l->n_parts; i++)
		for (int64_t k = 0; k < l->parts[i].n; k++, at++) {
			in_order &= l->parts[i].rows[k] == at;
			place[l->parts[i].rows[k]] = at;
		}
	if (in_order)
		return y;
	qn_value *in[] = {y, qn_graph_const(g, NULL, qn_tensor_i64s(g->arena, place, (int)l->n))};
	qn_value *z = qn_graph_apply(g, n, "Gather", qn_arena_printf(g->arena, "%s.ordered", n->name), in, 2);
	qn_node_set_int(g, z->producer, "axis", f->shape.rank - 1);
	z->fact = y->fact;
	return z;
}

static qn_status split(qn_graph *g, qn_layer *l, const quern_config *config)
{
	qn_node *n = l->node;
	qn_value **parts = QN_NEW(g->arena, qn_value *, l->n_parts);
	for (int i = 0; i < l->n_parts; i++) {
		const qn_part *p = &l->parts[i];
		store s = {n->in[1], p->rows, p->n, l->k, p->weight_bits, p->form, config};
		qn_value *in[3] = {n->in[0], n->in[1], NULL};
		QN_TRY(bias_rows(g, qn_node_has_in(n, 2) ? n->in[2] : NULL, &s, &in[2]));
		qn_node *part = qn_graph_node(g, n, n->op, qn_arena_printf(g->arena, "%s.%s", n->name, qn_role_name(p->role)), in, in[2] ? 3 : 2, 1);
		part->out[0]->fact = (qn_fact){QN_F32, n->out[0]->fact.shape, NULL};
		part->out[0]->fact.shape.dim[part->out[0]->fact.shape.rank - 1] = qn_dim_const(p->n);
		QN_TRY(rewrite(g, part, 1, &s));
		parts[i] = part->out[0];
	}
	qn_value_replace(g, n->out[0], join(g, n, l, parts));
	qn_node_remove(g, n);
	l->node = NULL;
	return QUERN_OK;
}

qn_status qn_pass_weights(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		qn_status status;
		if (parts_differ(l)) {
			status = split(g, l, p->config);
		} else {
			store s = {l->node->in[l->weight_in], NULL, l->n, l->k, l->weight_bits, l->form, p->config};
			status = rewrite(g, l->node, l->weight_in, &s);
		}
		if (status != QUERN_OK)
			return qn_prefix(g->ctx, status, "layer '%s'", l->name);
	}
	qn_graph_sweep(g);
	return QUERN_OK;
}
