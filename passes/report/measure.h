/* measure.h - figures of a report that take work: what stored weights lost, what each layer adds, what layers read. */
#ifndef QN_REPORT_MEASURE_H
#define QN_REPORT_MEASURE_H

#include "passes/eval.h"

/* --- weights.c: the stored weight of a layer against its source ----------------------------------------------------------- */
typedef struct qn_weight_figures {
	double signal, noise;        /* sums of squares over all values */
	double scale_min, scale_max; /* NAN where the form has no scales */
} qn_weight_figures;

/* Of every layer of a quantized model; layers stored as they are have no noise. One weight is in memory at a time. */
qn_status qn_report_weights(quern_model *m, qn_arena *a, qn_weight_figures **out);

/* --- measure.c: on samples -------------------------------------------------------------------------------------------------- */
/* Magnitudes of a tensor's channels: quantiles over the channels of each one's largest. */
typedef struct qn_spread {
	double low, median, high; /* a tenth, the half, nine tenths of the channels are below */
	double top[5];            /* the five largest, falling; NAN past the number of channels */
} qn_spread;

typedef struct qn_input_stats {
	const qn_value *value; /* of the float graph */
	int64_t channels;
	float *low, *high;     /* by channel */
	float mask_floor;
	struct qn_input_stats *next; /* of the same value id: none */
} qn_input_stats;

typedef struct qn_measure {
	quern_evaluation *e;
	qn_arena *arena;
	qn_damage *own;         /* by layer: its result on exact inputs */
	double *alone;          /* by layer: error of the outputs with only that layer quantized, summed over the attributed samples */
	double together;        /* the same with all layers */
	size_t attributed, most_attributed;
	const char *no_share;   /* why no sample was attributed; NULL otherwise */
	qn_input_stats **input; /* by value id of the float graph; NULL where no layer reads it */
	qn_eval_item **of;      /* by value id of the compiled graph: the first layer whose result it is; */
	qn_eval_item **next;    /* by item: another */
	const qn_tensor **error;/* by layer: of the sample at hand */
	qn_exec *trial;         /* the float graph, for one layer's error at a time */
	bool logits_alone;      /* other outputs do not count */
	bool begun;
} qn_measure;

/* Multiply-adds that the search for shares may take; beyond that it is left out, and the report says so. */
#define QN_MOST_ATTRIBUTION 5e10

/* `e` has its items. Lives in `a`. */
qn_measure *qn_measure_new(quern_evaluation *e, qn_arena *a);
/* Makes an evaluation's plan call it. */
void qn_measure_hook(qn_measure *m, qn_eval_plan *plan);
/* Spread of the magnitudes; divided channel by channel where `by` is not NULL. Also the ends. */
qn_spread qn_measure_spread(const qn_input_stats *s, const float *by, qn_arena *scratch, double *low, double *high);

#endif
