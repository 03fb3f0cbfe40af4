/* scales.h - from a range to the codes of an activation. */
#ifndef QN_SCALES_H
#define QN_SCALES_H

#include "passes/config.h"
#include "passes/plan.h"

/* value = (code - zero_point) * scale for codes in [least, most] */
typedef struct qn_act_codes {
	float scale;
	int zero_point, least, most;
} qn_act_codes;

/* Codes of `bits` (1..16) that reach low and high; low <= 0 <= high. Symmetric: scale = range / (2^(bits-1) - 1), at 16 bits range / 32639,
 * which two i8 limbs hold. Asymmetric: scale = (high - low) / (2^bits - 1), at 16 bits over 2 x 32639. The scale is never below scale_min
 * and never 0. */
qn_act_codes qn_act_codes_for(int bits, bool asymmetric, float low, float high, float scale_min);

#endif
