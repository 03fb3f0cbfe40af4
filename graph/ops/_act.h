/* _act.h - evaluation and emission of activations with a known scale, as the engine's quantizing cast does it. */
#ifndef QN_OPS_ACT_H
#define QN_OPS_ACT_H

#include "graph/act.h"
#include "graph/emit.h"

/* Fails unless the scale is a positive number and bits and zero point are within `most_bits`. */
qn_status qn_act_check(qn_call *c, qn_act a, int most_bits);

/* The engine's cast to an 8-bit quantized type: x / scale + zero, to the nearest with ties to even, saturated; NaN gives 0. */
static inline float qn_act_code(float x, float scale, float zero)
{
	const float magic = 12582912.0f; /* 1.5 * 2^23: adding it leaves no room for a fraction */
	float v = x / scale + zero;
	v = v > 200.0f ? 200.0f : v;
	v = v < -200.0f ? -200.0f : v;
	v = v + magic - magic;
	v = v > 127.0f ? 127.0f : v;
	v = v < -128.0f ? -128.0f : v;
	return v == v ? v : 0.0f;
}

/* Bounds that x is clamped to before the cast where the levels are fewer than the integers hold: as the archive writes them. */
void qn_act_bounds(qn_act a, float *low, float *high);
/* x clamped so, where there is need; else x. `full` is the width that the integers hold by themselves. */
const char *qn_act_emit_clamp(qn_emit *e, const char *x, qn_act a, int full);
/* The identifier of x as QI8; its scale is recorded in graph.quant too. */
const char *qn_act_emit_cast(qn_emit *e, const char *hint, const char *x, float scale, int zero_point);

#endif
