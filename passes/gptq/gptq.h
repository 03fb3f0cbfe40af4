/* gptq.h - rounding of a linear layer's weights by what its calibration inputs say.
 *
 * The error of a row q of codes against its target row w is (q - w) H (q - w)^T, H the second moment of the centred inputs, damped. Sources: GPTQ (Frantar et
 * al. 2022, arXiv 2210.17323) for the order of rounding and the compensation through the Cholesky factor of the inverse; the choice of a block's scale by
 * trial inside that order, the centring, the compensated target and the block descent are measured in docs/rounding.md.
 *
 * One layer alone against its float inputs: qn_metric_make, then qn_gptq_q4_0 or qn_gptq_i8, then b + (w - q) mean for the bias. */
#ifndef QN_GPTQ_H
#define QN_GPTQ_H

#include "passes/quant/quant.h"

enum { QN_GPTQ_CANDIDATES = 32 };

/* The metric of all layers that read one tensor. A last block of fewer than 32 columns is filled up with the identity. */
typedef struct qn_metric {
	int64_t n;           /* contraction length */
	int64_t rows;        /* inputs that it was made of */
	float *mean;         /* [n] of the inputs; zeros where they were not centred */
	float *h;            /* [n, n] damped, symmetric */
	float *damping;      /* [n] what the diagonal of h got */
	double *factor;      /* [n, n] lower Cholesky factor of h with rows and columns in reverse order, in the lower triangle */
	float *upper;        /* [n, n] U with inverse(h) = U^T U, upper triangle */
	float *block_upper;  /* [ceil(n / 32)][32 x 32] the same of each diagonal block alone */
	float *block_inverse;/* [ceil(n / 32)][32 x 32] inverse of each diagonal block */
} qn_metric;

typedef struct qn_damping {
	double by;        /* added: by x diag(h) + by x mean(diag(h)) I */
	bool mean_only;   /* just the second */
} qn_damping;

/* From x [rows, n], row-major. QUERN_ERR_NUMERIC, with no message written, when h is not positive definite. All storage in `a`. */
qn_status qn_metric_make(qn_ctx *ctx, qn_arena *a, const float *x, int64_t rows, int64_t n, qn_damping damping, bool centre, qn_metric *out);
/* The same from the upper triangle of the second moment h [n, n], which is used up; m->n, rows and mean are given. */
qn_status qn_metric_from_moment(qn_ctx *ctx, qn_arena *a, double *h, qn_damping damping, qn_metric *m);

/* w + alpha * (e^T xc) h^-1 for e the error that remains to be explained, given as the product exc = e^T xc [out, n]; in place on w. */
void qn_metric_compensate(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const double *exc, double alpha, float *w, int64_t out);

typedef struct qn_gptq_options {
	bool trial;       /* scales by trial inside the block; else by squared error weighted with diag(h) */
	int descents;     /* passes of block coordinate descent after it, at most */
} qn_gptq_options;

/* Q4_0 blocks [out][n / 32] for the target rows w [out, n]; n a multiple of 32. The same bytes at any thread count. */
void qn_gptq_q4_0(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, int64_t out, const qn_gptq_options *o, uint8_t *blocks);
/* i8 codes [out, n] of `bits` bits with the rows' scales given. */
void qn_gptq_i8(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, int64_t out, int bits, const float *scales, int8_t *codes);

/* What q in the place of w adds to the squared error of the outputs over all inputs, row by row: d h d^T - 2 d . exc for d = q - w and the undamped h. exc: the error that was there
 * before, as above; NULL: none. loss [out]. */
void qn_metric_loss(qn_ctx *ctx, qn_arena *scratch, const qn_metric *m, const float *w, const float *q, const double *exc, int64_t out, double *loss);

#endif
