/* act.h - activations as integers whose scale is known at compile time: what the rows that compute with them and the passes that choose the
 * numbers agree on. An activation x stands for code = clamp(round(x / scale + zero_point), low, high), with the levels of its bits. */
#ifndef QN_ACT_H
#define QN_ACT_H

#include "graph/graph.h"

typedef struct qn_act {
	float scale; /* > 0 */
	int zero_point;
	int bits;    /* 1..16; 1 counts as 2 */
} qn_act;

/* The codes of so many bits: -2^(bits-1) .. 2^(bits-1) - 1. */
void qn_act_levels(int bits, int *low, int *high);
/* The attributes act_scale, act_zero_point and act_bits of a node. */
qn_act qn_act_get(const qn_node *n);
void qn_act_set(qn_graph *g, qn_node *n, qn_act a);

/* Over 8 bits an activation is two i8 limbs: hi = round(x / (256 scale)) + the high zero point, lo = round((x - hi's part) / scale). */
int qn_act_high_zero(int zero_point);
/* The same activation with its scale widened (by less than 1 % at 16 bits, not at all below) so that all its levels lie within two limbs. */
qn_act qn_act_in_limbs(qn_act a);

#endif
