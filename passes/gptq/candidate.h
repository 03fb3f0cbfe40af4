/* candidate.h - a layer's weight in one way to round it, and whether that way is better than plain rounding. */
#ifndef QN_GPTQ_CANDIDATE_H
#define QN_GPTQ_CANDIDATE_H

#include "passes/gptq/layer.h"

/* Codes and values of one way to round. */
typedef struct qn_rounded {
	qn_tensor *stored;
	float *scales; /* of i8 */
	float *q;      /* [n, k] */
} qn_rounded;

/* Room for it; the values in another arena than the codes, for they are needed no longer than the layers of a group. */
qn_rounded qn_rounded_new(const qn_layer *l, qn_arena *stored, qn_arena *values);
/* To the nearest: Q4_0 with scales of least squared error, i8 with the largest magnitude of each row. */
qn_status qn_round_plainly(qn_ctx *ctx, const qn_layer *l, const float *w, qn_rounded *r);
qn_status qn_round_by_metric(qn_gptq_shared *h, const qn_layer *l, const float *target, qn_rounded *r);

typedef enum qn_verdict { QN_BETTER, QN_WORSE, QN_WORSE_BY_ROW } qn_verdict;

/* Whether q, with its bias [n], is better than plain rounding on the layer's own inputs: in the metric, and in the error of each row relative
 * to it. */
qn_status qn_rounded_judge(qn_gptq_shared *h, const qn_gptq_target *t, const float *q, const float *bias, qn_verdict *verdict);

#endif
