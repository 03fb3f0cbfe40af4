/* act.c - levels, limbs and attributes of activations with a known scale. */
#include "graph/act.h"

#include <math.h>

void qn_act_levels(int bits, int *low, int *high)
{
	int half = 1 << ((bits < 2 ? 2 : bits) - 1);
	*low = -half;
	*high = half - 1;
}

qn_act qn_act_get(const qn_node *n)
{
	return (qn_act){qn_node_float(n, "act_scale", 0), (int)qn_node_int(n, "act_zero_point", 0), (int)qn_node_int(n, "act_bits", 8)};
}

void qn_act_set(qn_graph *g, qn_node *n, qn_act a)
{
	qn_node_set_float(g, n, "act_scale", a.scale);
	qn_node_set_int(g, n, "act_zero_point", a.zero_point);
	qn_node_set_int(g, n, "act_bits", a.bits);
}

/* (zero - 128) / 256 would lay the limbs' range on that of the levels; it is rounded so that the shorter side is not cut. */
int qn_act_high_zero(int zero_point)
{
	double at = (zero_point - 128) / 256.0;
	return (int)(zero_point > 0 ? floor(at) : ceil(at));
}

qn_act qn_act_in_limbs(qn_act a)
{
	int low, high, zero = qn_act_high_zero(a.zero_point);
	qn_act_levels(a.bits, &low, &high);
	double above = (double)(high - a.zero_point) / ((127 - zero) * 256 + 127), below = (double)(a.zero_point - low) / ((128 + zero) * 256 + 128);
	double widest = above > below ? above : below;
	if (widest > 1)
		a.scale = nextafterf((float)(a.scale * widest), INFINITY);
	return a;
}
