/* layer.h - the layers that are rounded by their calibration inputs, and what is known of each from the graph. */
#ifndef QN_GPTQ_LAYER_H
#define QN_GPTQ_LAYER_H

#include "passes/gptq/gptq.h"
#include "passes/gptq/streams.h"
#include "passes/plan.h"

typedef struct qn_gptq_settings {
	qn_damping damping; /* by 0: from the number of rows and columns */
	double alpha;     /* share of the compensation that is made */
	bool centre;      /* H of centred inputs, and the mean error folded into the bias */
	bool sequential;  /* inputs of the network as rounded so far; else float inputs */
	bool compensate;  /* targets that make good the error of earlier layers */
	bool residual;    /* and that of the stream which the result is added to */
	qn_gptq_options rounding;
} qn_gptq_settings;

/* Of a tensor; fewer say nothing of the channels of a layer that reads it, and it is rounded plainly. */
enum { QN_FEWEST_ROWS = 32 };
#define QN_TOO_FEW_ROWS "the samples give it too few rows"

/* Marks the layers in Q4_0 (and, where asked, i8) whose weights samples are to round: `rounding` of each is `name`. Those that cannot take part get a rounding_note. */
void qn_gptq_mark(qn_plan *plan, const char *name, bool i8);
/* Whether another layer reads the same weight, as it is or moved. */
bool qn_gptq_shares_weight(const qn_plan *plan, const qn_layer *l);
/* The other operand of the sum that a layer's result goes into, when it has the result's shape and is already there; else NULL. */
qn_value *qn_gptq_residual(const qn_layer *l);
/* Marked layers of `plan` that read the same value as `first`, from `first` on. Returns how many. */
size_t qn_gptq_group(qn_plan *plan, qn_layer *first, qn_layer **group, size_t most);

/* --- targets.c ------------------------------------------------------------------------------------------------------- */
/* A layer's target: what its result should be, as moments over the samples. */
typedef struct qn_gptq_target {
	qn_layer *l;
	const float *w, *bias;       /* [n, k]; [n] or NULL */
	qn_rows exact, rounded;      /* of the stream that its result is added to; no rows: there is none or it is not asked for */
	float *mean_residual;        /* [n] what the stream lacks in the mean */
	double *exc;                 /* [n, k] (error that earlier layers left)^T (centred inputs); NULL: none */
} qn_gptq_target;

/* What the layers of a group share. */
typedef struct qn_gptq_shared {
	qn_graph *g;
	qn_streams *s;
	const qn_gptq_settings *o;
	qn_arena *a;
	qn_rows exact, rounded; /* inputs */
	float *mean_exact;      /* [k] */
	bool few_rows;          /* less than QN_FEWEST_ROWS, copies of samples not counted */
	qn_metric metric;
	qn_gptq_target *t;
	size_t n;
} qn_gptq_shared;

/* Fills all of it from the streams, given g, s, o, a, n and t[].l. QUERN_ERR_NUMERIC, with no message: too few rows, or the moment is singular. */
qn_status qn_gptq_targets(qn_gptq_shared *h);

/* --- layer.c ------------------------------------------------------------------------------------------------------------ */
/* Rounds a group: sets ready_weight (ready_scale, ready_bias) of each and makes the rounded stream read them; what it reads is in `values`, which must live until the
 * layers were run. Layers for which it is not possible or not better keep plain rounding, and rounding_note says so. */
qn_status qn_gptq_round_group(qn_graph *g, qn_plan *plan, qn_streams *s, const qn_gptq_settings *o, qn_layer **group, size_t n, qn_arena *values);

#endif
