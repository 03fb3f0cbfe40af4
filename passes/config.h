/* config.h (private) - the fields behind a quern_config. */
#ifndef QN_CONFIG_H
#define QN_CONFIG_H

#include "graph/emit.h"
#include "passes/quant/quant.h"
#include <quern/config.h>

enum { QN_CONFIG_ROLES = 6 }; /* query key value output ffn head, in the order of qn_role */

typedef struct qn_pin {
	const char *name;
	int weight_bits, act_bits; /* 0: not given */
} qn_pin;

typedef struct qn_name_list {
	const char **v;
	size_t n, cap;
} qn_name_list;

typedef struct qn_set {
	const char *symbol;
	int64_t size;
} qn_set;

/* A parameter that has another value for some layers. */
typedef struct qn_layer_override {
	const char *parameter; /* one of qn_override_names */
	double value;
	qn_name_list layers;   /* names or globs, as in pins */
} qn_layer_override;

/* actScaleMin, weightScaleMin, minclipRatio: the parameters that are taken layer by layer */
enum { QN_OVERRIDE_COUNT = 3 };
extern const char *const qn_override_names[QN_OVERRIDE_COUNT];

/* CalibrationConfig; the meaning and the range of each field is in docs/config.md. */
typedef struct qn_calibration_config {
	int method;  /* 0..3 */
	int output;  /* qn_output_kind */
	int mode;    /* qn_calib_mode */
	double percentile, topk_ratio; /* maxPercentile */
	int max_each, max_total;
	double hist_percentile;        /* histogram */
	bool hist_use_gpu;
	int hist_num_bins, hist_num_samples, hist_buffer_size;
	double hist_min_bin_width, hist_search_percentile_min, hist_search_percentile_max;
	int hist_num_search, hist_search_type; /* 0 percentile, 1 mse, 2 kl */
	double act_scale_min, weight_scale_min, min_clip_ratio;
	qn_layer_override *overrides;
	size_t n_overrides, cap_overrides;
	bool quantize_outputs;
} qn_calibration_config;

typedef enum qn_calib_mode { QN_CALIB_MAX, QN_CALIB_PERCENTILE, QN_CALIB_HISTOGRAM } qn_calib_mode;
/* Scales of graph outputs: one a tensor, one a channel, or that of the fixed range 0..1. */
typedef enum qn_output_kind { QN_OUTPUT_TENSOR, QN_OUTPUT_CHANNELS, QN_OUTPUT_SIGMOID } qn_output_kind;
/* Of qn_calibration_config: methods 1 and 3 balance channels, 2 and 3 have zero points. */
static inline bool qn_method_balances(int method) { return method & 1; }
static inline bool qn_method_asymmetric(int method) { return method >= 2; }

/* How --rounding gptq works: docs/rounding.md. */
typedef struct qn_gptq_config {
	double damping, alpha; /* 0: by the number of rows and samples */
	bool centre, sequential, compensate, residual, permute, trial;
	int descents;
	int copies;            /* varied copies of each sample; -1: as many as help */
} qn_gptq_config;

struct quern_config {
	quern_context *context;
	qn_ctx *ctx;
	qn_arena arena;
	/* BitConfig */
	bool mixed_precision;
	int weight_bits[QN_CONFIG_ROLES], act_bits[QN_CONFIG_ROLES];             /* of mixed precision */
	int asked_weight_bits[QN_CONFIG_ROLES], asked_act_bits[QN_CONFIG_ROLES]; /* 0: not asked; over the ones above */
	bool named_role[QN_CONFIG_ROLES]; /* an option gave widths to this one */
	qn_name_list weight_16, act_16;
	qn_pin *pins;
	size_t n_pins;
	int preset;         /* a qn_preset: for what is not asked */
	int embedding_bits; /* where embedding_asked, else the preset's */
	bool embedding_asked;
	bool dynamic_activations;
	bool equalize;
	const char *save_path, *load_path; /* allocation files; NULL: none */
	const char *report_path; /* NULL: none */
	qn_calibration_config calibration;
	/* the rest */
	const char *calib_path; /* NULL: no samples */
	qn_rounding rounding;
	double percentile;
	bool rounding_asked, percentile_asked; /* else a loaded allocation's */
	qn_gptq_config gptq;
	qn_target target;
	bool strict;
	qn_set *sets;
	size_t n_sets, cap_sets;
};

enum { QN_FLOAT_BITS = 32 };
/* What a role (0..QN_CONFIG_ROLES) is asked to have: by option, by mixed precision, or by default. */
int qn_config_weight_bits(const quern_config *c, int role);
int qn_config_embedding_bits(const quern_config *c);
int qn_config_act_bits(const quern_config *c, int role);

/* What quern_config_write gives. */
void qn_config_text(const quern_config *c, qn_text *t);
/* With a preset and no rounding asked for: gptq with samples, else mse. In `a`; `c` itself where nothing follows from a preset. */
const quern_config *qn_config_settled(qn_arena *a, const quern_config *c);

const char *qn_rounding_name(qn_rounding r); /* "minmax" ... */

/* Pins widths (0: not given) of a name; given again, it takes the later place and keeps what is not given anew. Copies `name`. */
void qn_config_pin(quern_config *c, const char *name, int weight_bits, int act_bits);

#endif
