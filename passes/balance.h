/* balance.h - factors between a tensor and the layers that read it, and what a choice of them costs. */
#ifndef QN_BALANCE_H
#define QN_BALANCE_H

#include "passes/config.h"
#include "passes/stats.h"

enum { QN_BALANCE_LAYERS = 64 };

/* m_k = (x_k + lift mean(x))^alpha / w_k^(1 - alpha), x_k and w_k the largest magnitudes of the channel in the samples and in the weights.
 */
typedef struct qn_balance_choice {
	double alpha, lift;
} qn_balance_choice;

typedef struct qn_balance_layer {
	qn_layer *l;
	float *w;              /* [n, k]: those of the layer's rows that errors are measured on */
	int64_t n;
	const float *exact[2]; /* [rows of a fold, n]: products in float */
} qn_balance_layer;

/* Rows to measure errors on, and what is known of the samples that they are not from. */
typedef struct qn_balance_fold {
	const float *rows;
	int64_t n;
	const float *other_rows; /* of the other samples */
	int64_t n_other;
	const float *low, *high; /* bounds of the other samples, by channel */
} qn_balance_fold;

/* A tensor and the layers that read it. */
typedef struct qn_balance {
	qn_graph *g;
	const quern_config *config;
	qn_stats *s;
	qn_arena *a; /* lives as long as the search */
	qn_balance_layer layer[QN_BALANCE_LAYERS];
	int n;
	qn_balance_fold fold[2];
	int n_folds;              /* 1 where the samples have no two halves: rows, bounds and others are then all there is */
	float *w_most;            /* by channel: the largest magnitude over all layers */
	float *m, *x, *q, *w, *y; /* room for one candidate: factors, rows over them, as codes say; a weight, its product */
} qn_balance;

/* Lives in `a`, without layers. */
void qn_balance_start(qn_balance *b, qn_graph *g, const quern_config *config, qn_stats *s, qn_arena *a);
qn_status qn_balance_add(qn_balance *b, qn_layer *l);
/* Once all layers are there. */
void qn_balance_ready(qn_balance *b);
/* The factors over bounds of the tensor's channels; scaled so that no layer's activation scale meets its lower bound. */
void qn_balance_factors(const qn_balance *b, const float *low, const float *high, qn_balance_choice c, float *m);
/* Error of all layers' products with weights and activations quantized to their widths, relative to the products and summed over the
 * layers. Factors and ranges are those of one half of the samples, rows those of the other, both ways, so that a choice that only fits what
 * was seen does not pass. NULL: no factors. */
qn_status qn_balance_error(qn_balance *b, const qn_balance_choice *c, double *error);

#endif
