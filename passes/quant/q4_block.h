/* q4_block.h - what the plain and the fast Q4_0 quantizer share: the job's numbers and the report's arithmetic, no codes. */
#ifndef QN_Q4_BLOCK_H
#define QN_Q4_BLOCK_H

#include "passes/quant/quant.h"

/* Scales tried for each grid of levels, as multiples of max|v| */
enum { QN_Q4_CANDIDATES = 32, QN_Q4_GRIDS = 2, QN_Q4_REFITS = 4 };
/* A family is refined when its best scale's error times this is below the best so far: refits gain less. */
#define QN_Q4_HOPE 0.75f

/* Levels low + step * k, k = 0..last. The first `split` candidates are one family (one sign), the rest the other; each family's best is
 * refined. */
typedef struct qn_q4_grid {
	float low, step, last;
	int split;
	float factor[QN_Q4_CANDIDATES];
} qn_q4_grid;

typedef struct qn_q4_job {
	qn_rounding rounding;
	int bits;
	float half; /* 2^bits / 2 */
	float rank; /* MINMAX: place of the quantile among the 32 sorted magnitudes; 31: the maximum */
	bool half_source;
	int n_grids;
	qn_q4_grid grid[QN_Q4_GRIDS];
	const float *weight; /* a column's weight, or NULL */
	float weight_floor;  /* weights below it are raised to it */
	int64_t cols;
} qn_q4_job;

/* Checks the arguments and fills the job. */
qn_status qn_q4_job_init(qn_ctx *ctx, qn_q4_job *job, int64_t rows, int64_t cols, qn_rounding rounding, const qn_q4_opts *opts);

/* Quantizes `n` blocks from block `first` on; `w` and `out` are those of block 0. */
void qn_q4_reference_blocks(const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r);
void qn_q4_fast_blocks(const qn_q4_job *job, const float *w, int64_t first, int64_t n, uint8_t *out, qn_quant_report *r);

/* Codes 0 .. 2^bits - 1 of n values under one f16 scale by torch_to_nnef's rule; bits 1..8. */
void qn_group_codes(const float *v, int64_t n, uint16_t scale, int bits, bool half_source, uint8_t *codes);

/* The linear-interpolated quantile at `rank` of n magnitudes; reorders them. */
float qn_quantile(float *magnitude, int64_t n, float rank);

void qn_report_init(qn_quant_report *r);
/* Adds what one scale shows: its exact value, as stored in f16, and whether any value under it is not zero. */
void qn_report_scale(qn_quant_report *r, int64_t index, float exact, uint16_t stored, bool any);
/* The same for n scales whose magnitudes are normal f16 numbers from `least` to `most` (bits). */
void qn_report_usual(qn_quant_report *r, int64_t n, uint16_t least, uint16_t most);
void qn_report_bad(qn_quant_report *r, const float *v, int64_t n, int64_t first);
void qn_report_merge(qn_quant_report *into, const qn_quant_report *from); /* the order does not matter */
/* The caller's report, or the failure that a caller without one gets. */
qn_status qn_report_give(qn_ctx *ctx, const qn_quant_report *r, qn_quant_report *out);

int qn_quant_threads(const qn_ctx *ctx);

#endif
