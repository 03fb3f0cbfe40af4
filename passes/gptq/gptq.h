/* gptq.h - rounding of a linear layer's weights by what its calibration inputs say.
 *
 * The error of a row q of codes against its target row w is (q - w) H (q - w)^T, H the second moment of the centred inputs, damped. Sources: GPTQ (Frantar et
 * al. 2022, arXiv 2210.17323) for the order of rounding and the compensation through the Cholesky factor of the inverse; the choice of a block's scale by
 * trial inside that order, the centring, the compensated target and the block descent are measured in docs/rounding.md. */
#ifndef QN_GPTQ_H
#define QN_GPTQ_H

#include "passes/quant/quant.h"

enum { QN_GPTQ_CANDIDATES = 32 };

/* The metric of all layers that read one tensor. */
typedef struct qn_metric {
	int64_t n;           /* contraction length */
	int64_t rows;        /* inputs that it was made of */
	float *mean;         /* [n] of the inputs */
	double *h;           /* [n, n] damped, symmetric */
	double *factor;      /* lower Cholesky factor of h, in the lower triangle */
	float *upper;        /* [n, n] U with inverse(h) = U^T U, upper triangle */
	float *h32;          /* h in f32 */
	float *block_upper;  /* [n / 32][32 x 32] the same of each diagonal block alone */
	float *block_inverse;/* [n / 32][32 x 32] inverse of each diagonal block */
} qn_metric;

/* From x [rows, n], row-major. Damping adds by x diag(h) + by x mean(diag(h)) I (mean_only: just the second). QUERN_ERR_NUMERIC, with no message written, when h is not positive
 * definite. All storage in `a`. */
qn_status qn_metric_make(qn_ctx *ctx, qn_arena *a, const float *x, int64_t rows, int64_t n, double damping, bool mean_only, bool centre, qn_metric *out);

/* w + alpha * (e^T xc) h^-1 for e the error that remains to be explained, given as the product exc = e^T xc [out, n]; in place on w. */
void qn_metric_compensate(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const double *exc, double alpha, float *w, int64_t out);

typedef struct qn_gptq_options {
	bool trial;       /* scales by trial inside the block; else by squared error weighted with diag(h) */
	int descents;     /* passes of block coordinate descent after it */
} qn_gptq_options;

/* Q4_0 blocks [out][n / 32] for the target rows w [out, n]. Deterministic at any thread count. */
void qn_gptq_q4_0(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, int64_t out, const qn_gptq_options *o, uint8_t *blocks);

/* sum over rows of (q - w) h (q - w)^T */
double qn_metric_loss(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, const float *q, int64_t out);

#endif
