/* forms.c - which form holds a weight at a width, and how many bytes it takes there. */
#include "passes/forms.h"

#include <math.h>

static qn_form form_of_bits(const qn_layer *l, int bits)
{
	if (bits <= 4)
		return QN_FORM_Q4_0;
	if (bits <= 8)
		return l->role == QN_ROLE_EMBEDDING ? QN_FORM_Q8_1 : QN_FORM_I8;
	return bits <= 16 ? QN_FORM_F16 : QN_FORM_F32;
}

/* What the values of a weight allow. */
typedef struct range {
	float largest;
	int64_t bad; /* flat index of the first NaN or infinity in the stored order, -1 */
} range;

/* Magnitudes are ordered as their bits are, which compares many at once; only what is not finite is looked for one by one. */
static bool all_finite(const float *v, int64_t n, float *largest)
{
	int32_t top = 0;
	for (int64_t i = 0; i < n; i++) {
		int32_t bits;
		memcpy(&bits, &v[i], sizeof bits);
		bits &= 0x7fffffff;
		top = bits > top ? bits : top;
	}
	memcpy(largest, &top, sizeof top);
	return top < 0x7f800000;
}

static range range_of(const float *v, int64_t n)
{
	range r = {0, -1};
	if (all_finite(v, n, &r.largest))
		return r;
	r.largest = 0;
	for (int64_t i = 0; i < n; i++) {
		float a = fabsf(v[i]);
		if (!(a <= 3.4028234663852886e38f)) {
			if (r.bad < 0)
				r.bad = i;
		} else if (a > r.largest) {
			r.largest = a;
		}
	}
	return r;
}

/* Below it f16 has fewer significant bits, down to none. */
static const float LEAST_F16 = 6.103515625e-5f;

static const char *f16_scale(const range *r, float codes)
{
	if (r->largest > codes * 65504.0f)
		return "a block scale is too large for f16";
	return r->largest > 0 && r->largest < codes * LEAST_F16 ? "its block scales are too small for f16" : NULL;
}

static const char *cannot_hold(qn_arena *a, const qn_layer *l, qn_form f, const range *r)
{
	bool linear = qn_node_is(l->node, "quern:Linear"), table = qn_node_is(l->node, "quern:Embedding");
	if (f == QN_FORM_F32)
		return NULL;
	if (r->bad >= 0)
		return qn_arena_printf(a, "its value for output %lld, input %lld is NaN or infinite", (long long)(l->k ? r->bad / l->k : 0),
			(long long)(l->k ? r->bad % l->k : r->bad));
	if (f == QN_FORM_Q4_0) {
		if (l->not_q4)
			return l->not_q4;
		return f16_scale(r, 8);
	}
	if (f == QN_FORM_Q8_1) {
		if (!table || l->k % 32)
			return l->not_q4;
		return f16_scale(r, 127);
	}
	if (f == QN_FORM_I8 && linear)
		return r->largest > 0 && r->largest / 127 < l->weight_scale_min ? "its scales would be below weightScaleMin" : NULL;
	if (f == QN_FORM_I8)
		return "the engine has no int8 form of this operator";
	if (!linear && !table)
		return "the engine does not take f16 weights for this operator";
	if (r->largest > 65504.0f || (r->largest > 0 && r->largest < LEAST_F16))
		return qn_arena_printf(a, "its largest value %g is too %s for f16", (double)r->largest, r->largest > 1 ? "large" : "small");
	return NULL;
}

static uint64_t stored_bytes(const qn_layer *l, qn_form f, int64_t rows)
{
	uint64_t n = (uint64_t)rows * (uint64_t)l->k;
	switch (f) {
	case QN_FORM_Q4_0:
		return n / 32 * 18;
	case QN_FORM_Q8_1:
		return n / 32 * 36;
	case QN_FORM_I8:
		return n + 4 * (uint64_t)rows;
	case QN_FORM_F16:
		return n * 2;
	case QN_FORM_F32:
		return n * 4;
	}
	return 0;
}

static qn_form settle_form(qn_arena *a, const qn_layer *l, int bits, const range *r, const char **reason)
{
	qn_form f = form_of_bits(l, bits);
	const char *why;
	while ((why = cannot_hold(a, l, f, r))) {
		if (!*reason)
			*reason = why;
		f = f == QN_FORM_Q4_0 && l->role == QN_ROLE_EMBEDDING ? QN_FORM_Q8_1 : f == QN_FORM_Q4_0 ? QN_FORM_I8 :
			f <= QN_FORM_I8 ? QN_FORM_F16 : QN_FORM_F32;
	}
	return f;
}

qn_status qn_layer_give_form(qn_graph *g, qn_arena *a, qn_layer *l)
{
	const qn_value *w = l->node->in[l->weight_in];
	int64_t count = 1;
	for (int i = 0; i < w->fact.shape.rank; i++)
		count *= w->fact.shape.dim[i].k;
	range r = {0, -1};
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor *t;
	qn_status status = qn_graph_load(g, l->node->in[l->weight_in], &scratch, &t);
	if (status == QUERN_OK)
		r = range_of(qn_tensor_f32(&scratch, t), count);
	qn_arena_release(&scratch);
	QN_TRY(status);
	if (r.bad >= 0)
		qn_log(g->ctx, QUERN_LOG_WARN, "weight '%s' holds NaN or infinity", l->weight);
	if (!l->n || !l->k) {
		l->n = w->fact.shape.rank ? w->fact.shape.dim[0].k : 1;
		l->k = l->n ? count / l->n : 0;
	}
	l->reason = NULL;
	l->form = settle_form(a, l, l->weight_bits, &r, &l->reason);
	l->bytes = stored_bytes(l, l->form, l->n);
	if (l->n_parts) {
		l->bytes = 0;
		for (int i = 0; i < l->n_parts; i++) {
			l->parts[i].form = settle_form(a, l, l->parts[i].weight_bits, &r, &l->reason);
			l->bytes += stored_bytes(l, l->parts[i].form, l->parts[i].n);
		}
	}
	return QUERN_OK;
}
