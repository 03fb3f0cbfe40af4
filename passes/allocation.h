/* allocation.h - allocation files: the widths, forms and scales of every layer, saved and loaded. docs/allocation.md has the format. */
#ifndef QN_ALLOCATION_H
#define QN_ALLOCATION_H

#include "passes/config.h"
#include "passes/plan.h"
#include "passes/result_files.h"

enum { QN_ALLOCATION_VERSION = 1 };

/* How the files begin, and how a former one is known. */
#define QN_ALLOCATION_BEGINS "{ \"format\": \"quern-allocation\""
extern const qn_result_kind qn_allocation_kind;

/* Rows [from, to) of a fused weight. */
typedef struct qn_row_run {
	int64_t from, to;
} qn_row_run;

typedef struct qn_allocated_part {
	qn_role role;
	qn_row_run *runs;
	size_t n_runs;
	int weight_bits;
} qn_allocated_part;

/* Of the channels of what a layer reads. */
typedef struct qn_allocated_factors {
	const float *v; /* NULL */
	int64_t n;
	const char *of; /* the layer above that has the same ones; NULL */
} qn_allocated_factors;

/* One entry. What the file does not give is as said; the rest is required. */
typedef struct qn_allocated {
	const char *name;
	const char *weight;           /* NULL */
	qn_role role;                 /* QN_ROLE_NONE */
	int block;
	bool has_block, has_range;
	int rank;                     /* -1 */
	int64_t shape[QN_MAX_RANK];
	int weight_bits, act_bits;
	int form;                     /* a qn_form; -1 */
	float act_scale;              /* 0 */
	int act_zero_point;
	float act_low, act_high;
	int scale_bits;               /* the width that act_scale is for; 0: act_scale and range tell */
	float weight_scale_min;       /* 0 */
	qn_allocated_factors balance, equalized;
	qn_allocated_part *parts;
	int n_parts;                  /* 0 */
	const qn_layer_error *error;  /* NULL */
} qn_allocated;

/* A file that was checked against the format, not yet against a model. */
typedef struct qn_allocation {
	const char *path;
	const char *file, *fingerprint; /* of the model that it was made for */
	int rounding;                   /* a qn_rounding */
	double percentile;              /* of minmax */
	bool dynamic_activations, quantize_outputs;
	bool equalize;                  /* factors are still to be found */
	qn_allocated *layers;
	size_t n, cap;
	struct qn_output_scales *outputs; /* of graph outputs */
	size_t n_outputs;
	struct qn_tuning *tuning;         /* NULL: none in the file */
} qn_allocation;

/* QUERN_ERR_CONFIG; the message names the file, the layer and the field, with the nearest known name. All of it lives in `a`. */
qn_status qn_allocation_read(qn_ctx *ctx, qn_arena *a, const char *path, qn_allocation **out);
qn_status qn_allocation_parse(qn_ctx *ctx, qn_arena *a, const char *name, const char *text, size_t n, qn_allocation **out);

/* Layers of the plan get the widths and scales of the file. Another model, a layer that only one of the two has, another weight, shape, role or split: an error
 * that lists the first differences and counts the rest. */
qn_status qn_allocation_apply(qn_ctx *ctx, qn_plan *p, const qn_allocation *f);
/* After pins and overrides: scales that are for another width than the layer now has are dropped, so that calibration is asked for. */
void qn_allocation_settle(qn_ctx *ctx, qn_plan *p, const qn_allocation *f);
/* Whether the scale is that of a range at a width, as closely as widths can be told apart. */
bool qn_scale_is_of_width(float scale, int zero_point, float low, float high, int bits);

/* The file for a plan. */
void qn_allocation_write(const qn_plan *p, qn_text *t);

#endif
