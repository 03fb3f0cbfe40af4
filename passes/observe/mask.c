/* mask.c - which values of a tensor were made by a mask: sums with, or selections of, a very negative constant. */
#include "passes/stats.h"

enum { MOST_CHECKED = 1 << 24, NODES_BACK = 24, MASK_DEPTH = 8 };
static const float SURELY_MASK = -1e8f, WEAKEST_MASK = -1e4f;

/* The most negative element of a resident float constant; 0 where there is none below 0. */
static float lowest(const qn_value *v)
{
	const qn_tensor *t = v->fact.value;
	float low = 0;
	if (!t || !qn_dtype_is_float(t->type) || qn_tensor_count(t) > MOST_CHECKED)
		return 0;
	for (int64_t i = 0, n = qn_tensor_count(t); i < n; i++) {
		float x = (float)qn_tensor_get(t, i);
		low = x < low ? x : low;
	}
	return low;
}

/* The mask constant that an operand is computed with: (1 - mask) * -1e4, a triangle of -inf, ... */
static float constant_in(const qn_value *v, int depth)
{
	if (v->is_const)
		return lowest(v);
	const qn_node *n = v->producer;
	float low = 0;
	if (!n || !depth || !(n->op->traits & (QN_ELEMENTWISE | QN_LAYOUT | QN_KEEPS_WEIGHT)))
		return 0;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i]) {
			float c = constant_in(n->in[i], depth - 1);
			low = c < low ? c : low;
		}
	return low;
}

static bool applies_masks(const qn_node *n)
{
	return qn_node_is(n, "Add") || qn_node_is(n, "Where") || qn_node_is(n, "Sub");
}

float qn_mask_floor(const qn_value *v)
{
	const qn_node *n = v->producer;
	for (int i = 0; n && i < NODES_BACK; i++) {
		if (applies_masks(n)) {
			float low = 0;
			for (int k = 0; k < n->n_in; k++) {
				float c = n->in[k] ? constant_in(n->in[k], MASK_DEPTH) : 0;
				low = c < low ? c : low;
			}
			return low <= WEAKEST_MASK && low / 2 > SURELY_MASK ? low / 2 : SURELY_MASK;
		}
		if (!(n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)))
			break;
		n = n->in[0]->producer;
	}
	return SURELY_MASK;
}
