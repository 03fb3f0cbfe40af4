/* trial.h - one block of 32 weights of one row: the scale and the codes of least error in the metric of a triangular factor. */
#ifndef QN_TRIAL_H
#define QN_TRIAL_H

#include "passes/gptq/gptq.h"

typedef struct qn_trial {
	float cost;               /* |U^-T (v - c d)|^2 */
	uint16_t scale;           /* d as f16 */
	int8_t code[QN_BLOCK];    /* -8..7 */
	float value[QN_BLOCK];    /* c d */
	float error[QN_BLOCK];    /* U^-T (v - c d), what later columns have to make good */
} qn_trial;

/* Rounds v in order, each column compensating the ones before it, for every candidate scale of either sign, then refits the scale to the codes. `upper` is
 * [32 x 32], rows `stride` apart. */
void qn_trial_block(const float v[QN_BLOCK], const float *upper, int64_t stride, qn_trial *best);
/* The same with the codes' scale given. */
void qn_trial_with_scale(const float v[QN_BLOCK], const float *upper, int64_t stride, float scale, qn_trial *out);

#endif
