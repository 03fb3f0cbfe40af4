/* stats.h - what calibration saw of the tensors that layers read. Streamed: the memory does not grow with the number of samples, and
 * nothing depends on the order of the samples or on threads. */
#ifndef QN_STATS_H
#define QN_STATS_H

#include "passes/plan.h"

enum { QN_STATS_ROWS = 512 }; /* rows kept of a tensor, to measure output errors on */

/* Of one tensor, along its last axis (the contraction axis of the layers that read it). */
typedef struct qn_stats {
	qn_value *value;
	int64_t channels;
	int64_t count;  /* values that entered */
	int64_t masked; /* values left out because a mask produced them */
	float *channel_low, *channel_high;    /* by channel */
	float *half_low[2], *half_high[2];    /* the same over each half of the samples; infinite where a half has none */
	float *rows; /* n_rows x channels: a deterministic selection that does not depend on the order of the samples */
	int64_t n_rows;
	uint64_t *row_hash;         /* of the rows kept, ascending once calibration is over */
	uint8_t *row_half;          /* which half of the samples a row kept is from */
	float mask_floor;           /* values up to it were made by a mask */
	struct qn_tails *tails;     /* of channels, where the tensor may get a balance */
	struct qn_ranges *ranges;   /* estimates what codes have to reach: passes/observe/observe.h */
	struct qn_ranges *balanced; /* the same of x / balance, where the tensor is balanced and its maximum does not suffice; else NULL */
	const float *balance;       /* [channels], NULL: none */
} qn_stats;

/* Codes of a graph output, one scale for it or one for each of its channels. */
typedef struct qn_output_scales {
	const char *name; /* ONNX name */
	int64_t n;
	float *scale;
	int *zero_point;
} qn_output_scales;

typedef struct qn_calibration {
	qn_stats *stats; /* one a tensor that some layer reads; n of them */
	size_t n;
	qn_stats *outputs;               /* of the float graph outputs, without rows */
	size_t n_outputs;
	size_t samples;
	int half; /* of the sample that runs now: samples of one content are in one half */
} qn_calibration;

qn_stats *qn_calibration_find(const qn_calibration *c, const qn_value *v); /* NULL when v was not observed */

/* --- the run over the samples ------------------------------------------------------------------------------------------ */
/* Sees a tensor of the calibration as it is computed: values without those that a mask made, which are 0 in `x`. `clean` are the n values
 * that no mask made. */
void qn_calibration_see(qn_calibration *c, qn_stats *s, const float *x, int64_t rows, const float *clean, int64_t n, qn_arena *scratch);
/* Runs the float graph over all samples. NaN or +infinity in a tensor of the calibration is QUERN_ERR_NUMERIC with a message that names the
 * sample and the node that made it. */
qn_status qn_calibration_run(qn_graph *g, qn_pass_env *env);
/* The value up to which a value of v counts as made by a mask: half of the most negative constant that is added or selected on the way to
 * v, at most -1e8 where there is none. */
float qn_mask_floor(const qn_value *v);
/* Adds rows to the kept selection: those of the smallest hashes, each once. */
void qn_stats_keep_rows(qn_stats *s, const float *x, int64_t rows, int half);
void qn_stats_sort_rows(qn_stats *s, qn_arena *scratch);

#endif
