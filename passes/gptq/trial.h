/* trial.h - blocks of 32 weights, 32 rows side by side: the scales and the codes of least error in the metric of a triangular factor. */
#ifndef QN_TRIAL_H
#define QN_TRIAL_H

#include "passes/gptq/gptq.h"

enum { QN_LANES = 32 };

/* What a block's 32 x 32 upper factor U gives to the kernels. */
typedef struct qn_block_factor {
	float column[QN_BLOCK][QN_BLOCK]; /* column[j][k] = U[k][j] */
	float reciprocal[QN_BLOCK];       /* 1 / U[j][j] */
} qn_block_factor;

/* From `upper`, rows `stride` apart. size < 32: a last block that is not full; what is missing is the identity. */
void qn_block_factor_load(const float *upper, int64_t stride, int64_t size, qn_block_factor *out);

typedef struct qn_trials {
	float v[QN_BLOCK][QN_LANES];     /* what to round, a row in each lane; lanes without a row are zeros */
	float scale[QN_LANES];           /* d, which f16 holds */
	float cost[QN_LANES];            /* |U^-T (v - c d)|^2 */
	float code[QN_BLOCK][QN_LANES];  /* c */
	float error[QN_BLOCK][QN_LANES]; /* U^-T (v - c d), what later columns have to make good */
} qn_trials;

/* Rounds v in order, each column compensating the ones before it, codes limited to low..high. The scales are given. */
void qn_trials_round(const qn_block_factor *f, float low, float high, qn_trials *t);
/* The same for Q4_0 with the scales searched: for `rows` lanes all candidates of either sign are tried, then the scale is refitted to the codes. */
void qn_trials_search(const qn_block_factor *f, int rows, qn_trials *t);

#endif
