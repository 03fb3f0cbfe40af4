/* weights.c - layers are rewritten to the operators of the forms that their weights and activations got.
 *
 * needs: widths; activation scales where calibration found them. gives: target-level operators only. A fused layer whose parts have
 * different forms is split by rows. Which pair of widths runs as what:
 *
 *   weights           activations       operator
 *   Q4_0, f16, f32    up to 8 bits      FakeQuant (one for all layers that read the tensor so), Linear
 *   Q4_0, f16, f32    up to 8, dynamic  FakeQuantRows, Linear
 *   Q4_0, f16, f32    more              Linear
 *   i8                up to 8 bits      LinearI8, one limb
 *   i8                9 to 16 bits      LinearI8, two limbs
 *   i8                up to 8, dynamic  LinearI8Rows, one limb
 *   i8                float             LinearI8Rows, two limbs
 *
 * An activation that was to be quantized but has no scale counts as float. */
#include "graph/act.h"
#include "passes/passes.h"
#include "passes/stored.h"

/* How a layer's activation enters its product. */
typedef enum { ACT_FLOAT, ACT_STATIC, ACT_ROWS } act_kind;

typedef struct activation {
	act_kind kind;
	qn_act a; /* bits only where the kind is ACT_ROWS */
} activation;

static activation activation_of(const qn_layer *l, qn_form form, const quern_config *c)
{
	activation v = {ACT_FLOAT, {l->act_scale, l->act_zero_point, l->act_bits}};
	bool narrow = l->act_bits <= 8;
	if (l->node->op != qn_op_find("quern", "Linear") || l->act_bits > QN_MOST_ACT_BITS)
		return v;
	if (narrow && c->dynamic_activations)
		v.kind = ACT_ROWS;
	else if (l->act_scale > 0 && (narrow || form == QN_FORM_I8))
		v.kind = ACT_STATIC;
	if (v.kind == ACT_STATIC && !narrow)
		v.a = qn_act_in_limbs(v.a);
	return v;
}

/* --- the activation of weights that are no integers ------------------------------------------------------------------- */
static bool same_act(const qn_node *n, const qn_op *op, qn_act a)
{
	qn_act b = qn_act_get(n);
	return n->op == op && a.bits == b.bits && a.zero_point == b.zero_point && !memcmp(&a.scale, &b.scale, sizeof a.scale);
}

/* `x` rounded to its levels; what an earlier layer made of it is taken again. */
static qn_value *rounded(qn_graph *g, qn_node *reader, qn_value *x, activation v)
{
	const qn_op *op = qn_op_find("quern", v.kind == ACT_STATIC ? "FakeQuant" : "FakeQuantRows");
	qn_act a = v.kind == ACT_STATIC ? v.a : (qn_act){.bits = v.a.bits};
	for (size_t i = 0; i < x->n_uses; i++)
		if (same_act(x->uses[i].node, op, a))
			return x->uses[i].node->out[0];
	qn_value *y = qn_graph_apply(g, reader, op->name, qn_arena_printf(g->arena, "%s.rounded", x->name), &x, 1);
	qn_act_set(g, y->producer, a);
	y->fact = (qn_fact){x->fact.type, x->fact.shape, NULL};
	return y;
}

/* --- integer products --------------------------------------------------------------------------------------------------- */
/* The bias less what the zero point adds to every product. */
static qn_status fold_zero_point(qn_graph *g, qn_value *bias, int zero, const float *scale, const int64_t *sums, int64_t n, qn_value **out)
{
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor *t = NULL;
	qn_status status = bias ? qn_graph_load(g, bias, &scratch, &t) : QUERN_OK;
	if (status == QUERN_OK) {
		const float *b = t ? qn_tensor_f32(&scratch, t) : NULL;
		float *folded = QN_NEW(g->arena, float, n);
		for (int64_t i = 0; i < n; i++)
			folded[i] = (float)((b ? (double)b[i] : 0) - (double)zero * (double)sums[i] * (double)scale[i]);
		*out = qn_store_vector(g, bias ? bias->name : "bias", folded, n);
	}
	qn_arena_release(&scratch);
	return status;
}

static const char *scale_name(qn_graph *g, const qn_store *s)
{
	return qn_arena_printf(g->arena, "%s.scale", s->source->weight ? s->source->weight : s->source->name);
}

static qn_status integer_static(qn_graph *g, qn_node *n, const qn_store *s, qn_act a)
{
	float *scale;
	int64_t *sums = NULL;
	bool two = a.bits > 8;
	int zero = two ? 256 * qn_act_high_zero(a.zero_point) : a.zero_point;
	QN_TRY(qn_store_scales(g, s, g->arena, &scale, zero ? &sums : NULL));
	for (int64_t i = 0; i < s->n; i++)
		scale[i] *= a.scale;
	qn_value *bias = qn_node_has_in(n, 2) ? n->in[2] : NULL;
	if (zero)
		QN_TRY(fold_zero_point(g, bias, zero, scale, sums, s->n, &bias));
	qn_value *in[4] = {n->in[0], qn_store_weight(g, s), qn_store_vector(g, scale_name(g, s), scale, s->n), bias};
	qn_node_become(g, n, qn_op_find("quern", "LinearI8"), in, bias ? 4 : 3);
	qn_act_set(g, n, a);
	return QUERN_OK;
}

static qn_status integer_rows(qn_graph *g, qn_node *n, const qn_store *s, activation v)
{
	float *scale;
	QN_TRY(qn_store_scales(g, s, g->arena, &scale, NULL));
	qn_value *bias = qn_node_has_in(n, 2) ? n->in[2] : NULL;
	qn_value *in[4] = {n->in[0], qn_store_weight(g, s), qn_store_vector(g, scale_name(g, s), scale, s->n), bias};
	qn_node_become(g, n, qn_op_find("quern", "LinearI8Rows"), in, bias ? 4 : 3);
	if (v.kind == ACT_ROWS) {
		qn_node_set_int(g, n, "limbs", 1);
		qn_node_set_int(g, n, "act_bits", v.a.bits);
	}
	return QUERN_OK;
}

/* --- layers --------------------------------------------------------------------------------------------------------------- */
/* `n` becomes the operator for a stored form; n is a Linear, an Embedding, or another node that keeps its operator. */
static qn_status rewrite(qn_graph *g, qn_node *n, int weight_in, const qn_store *s, activation v)
{
	if (s->form == QN_FORM_I8)
		return v.kind == ACT_STATIC ? integer_static(g, n, s, v.a) : integer_rows(g, n, s, v);
	if (s->form != QN_FORM_F32 || s->rows)
		qn_node_set_input(g, n, weight_in, qn_store_weight(g, s));
	if (v.kind != ACT_FLOAT)
		qn_node_set_input(g, n, 0, rounded(g, n, n->in[0], v));
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

static qn_store store_of(const qn_layer *l, qn_plan *p)
{
	return (qn_store){l->node->in[l->weight_in], NULL, l->n, l->k, qn_form_levels(l->form, l->weight_bits), l->form, p->config, l->weight_scale_min,
		l->ready_weight, l->ready_scale, p, (size_t)(l - p->layers)};
}

static qn_status split(qn_graph *g, qn_layer *l, qn_plan *plan)
{
	qn_node *n = l->node;
	qn_value **parts = QN_NEW(g->arena, qn_value *, l->n_parts);
	for (int i = 0; i < l->n_parts; i++) {
		const qn_part *p = &l->parts[i];
		qn_store s = store_of(l, plan);
		s.rows = p->rows, s.n = p->n, s.form = p->form, s.bits = qn_form_levels(p->form, p->weight_bits);
		qn_value *in[3] = {n->in[0], n->in[1], NULL};
		QN_TRY(qn_store_bias(g, &s, qn_node_has_in(n, 2) ? n->in[2] : NULL, &in[2]));
		qn_node *part = qn_graph_node(g, n, n->op, qn_arena_printf(g->arena, "%s.%s", n->name, qn_role_name(p->role)), in, in[2] ? 3 : 2, 1);
		part->out[0]->fact = (qn_fact){QN_F32, n->out[0]->fact.shape, NULL};
		part->out[0]->fact.shape.dim[part->out[0]->fact.shape.rank - 1] = qn_dim_const(p->n);
		QN_TRY(rewrite(g, part, 1, &s, activation_of(l, p->form, plan->config)));
		parts[i] = part->out[0];
	}
	l->joined = join(g, n, l, parts);
	qn_value_replace(g, n->out[0], l->joined);
	qn_node_remove(g, n);
	l->node = NULL;
	return QUERN_OK;
}

static qn_status rewrite_layer(qn_graph *g, qn_layer *l, qn_plan *p)
{
	if (!l->ready_weight && parts_differ(l))
		return split(g, l, p);
	if (l->ready_bias)
		qn_node_set_input(g, l->node, 2,
			qn_store_vector(g, qn_node_has_in(l->node, 2) ? l->node->in[2]->name : "bias", l->ready_bias->data, l->n));
	qn_store s = store_of(l, p);
	return rewrite(g, l->node, l->weight_in, &s, activation_of(l, l->form, p->config));
}

qn_status qn_pass_weights(qn_graph *g, qn_pass_env *env)
{
	qn_plan *p = env->plan;
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		qn_status status = rewrite_layer(g, l, p);
		if (status != QUERN_OK)
			return qn_prefix(g->ctx, status, "layer '%s'", l->name);
	}
	qn_graph_sweep(g);
	return QUERN_OK;
}
