/* tuner.h (private) - what the steps of a tuning share. A unit is what gets one width: a layer, or the layers that read one weight. */
#ifndef QN_TUNER_H
#define QN_TUNER_H

#include "passes/config.h"
#include "passes/damage.h"
#include "passes/gptq/streams.h"
#include "passes/model.h"
#include "passes/tune/curve.h"
#include "passes/tune/knapsack.h"

enum { QN_MOST_CANDIDATES = 3 };

/* Errors of the graph's outputs against float. */
typedef struct qn_output_error {
	double cosine; /* 1 - cosine, mean over samples and outputs; of an output with positions, half as it is and half averaged over them */
	double kl;     /* bits of divergence a row of logits; 0 where no output has logits */
} qn_output_error;

/* A width that a unit could have. */
typedef struct qn_candidate {
	int bits;
	qn_form form;
	uint64_t bytes;
	bool known; /* error is */
	qn_output_error error;
} qn_candidate;

typedef struct qn_unit {
	qn_layer **layers; /* in graph order; all read the same matrix */
	size_t n, cap;
	qn_candidate candidates[QN_MOST_CANDIDATES]; /* bytes ascending */
	int n_candidates;
	bool fixed;        /* by the configuration */
	bool counts;       /* in bits a weight: all but tables that keep their width */
	uint64_t weights;  /* of one layer */
	size_t stored;     /* so many times: layers that read the weight in one order share it */
	int chosen;        /* candidate */
	bool act_open;     /* where its weight is int8, its activations may have 8 or 16 bits */
	qn_candidate act;  /* of those of 8 bits; those of 16 count as exact */
	int act_bits;      /* chosen */
	uint64_t products; /* multiply-adds of its linear layers over the samples */
} qn_unit;

typedef struct qn_tuner {
	qn_ctx *ctx;
	qn_arena *a;
	const char *model_path, *output, *state_path;
	quern_model *model;        /* float graph, plan with the configured widths */
	quern_model *realised;     /* the chosen widths compiled; NULL: nothing asks for it */
	quern_config *config;      /* of the tuning: rounding settled */
	const quern_tune_options *options;
	qn_unit *units;
	size_t n, cap;
	int64_t other_bytes;       /* of all that is stored, less those of the units; below 0 where units are equal and so stored once */
	uint64_t counted_weights, uncounted_bytes;
	qn_streams streams;        /* exact: the float run; rounded: the runs that fork off it */
	qn_samples *samples;
	bool *logits;              /* by graph output */
	bool any_logits;
	qn_tensor **exact;         /* [batch][graph output] */
	struct qn_checks *checks;  /* what allocations are executed on; NULL: none will be */
	struct qn_state *state;
	bool kl;                   /* errors are divergences; else 1 - cosine */
	quern_model *ranged;       /* all activations that are open calibrated for 8 bits; NULL: none is to be measured */
} qn_tuner;

/* The error that the tuning minimizes. */
static inline double qn_error_of(const qn_tuner *t, const qn_output_error *e) { return t->kl ? e->kl : e->cosine; }

/* --- units.c: the plan's layers as units, each with the widths that its weight can have */
qn_status qn_units_make(qn_tuner *t);
/* The layers' widths and forms for the chosen candidates, in the plan of a model loaded from the same file and configuration. */
qn_status qn_units_apply(const qn_tuner *t, quern_model *m);

/* Whether the unit's activations are tuned at the chosen width of its weight. */
bool qn_unit_tunes_act(const qn_tuner *t, const qn_unit *u);

/* --- acts.c: activations of 8 bits, with the ranges that the configuration's calibration gives them */
/* Calibrates, where an error is to be measured; the layers of t->ranged get scales and factors. */
qn_status qn_acts_calibrate(qn_tuner *t);
/* In these runs, which stand before the unit's layer: its reads of its activation see what 8-bit codes hold of it. Without a scale (nothing was observed) they
 * see it as it is. Then the reads as they were. */
qn_status qn_acts_round(qn_tuner *t, const qn_layer *l, qn_exec *const *run, size_t n, qn_arena *a);
void qn_acts_restore(const qn_layer *l, qn_exec *const *run, size_t n);

/* --- variant.c: the weight of a unit at some of its candidates, as the final rounding would have it but for what depends on the other layers. value[c] f32 [n, k];
 * bias[c] f32 [n], or NULL: as it is. Inputs are read from the streams, which stand before the unit's first layer. */
typedef struct qn_variant {
	const qn_tensor *weight, *bias;
} qn_variant;
qn_status qn_variants_make(qn_tuner *t, const qn_unit *u, const bool *wanted, qn_arena *a, qn_variant *out);

/* --- measure.c: fills the errors of all candidates */
qn_status qn_measure_units(qn_tuner *t);

/* --- outputs.c: how far outputs are from float */
qn_status qn_outputs_begin(qn_tuner *t);
/* Whether errors against the float outputs of a run can be measured; the message says why not. */
qn_status qn_outputs_usable(const qn_tuner *t, const qn_tensor *exact);
typedef struct qn_output_sums {
	double cosines, kl;
	int64_t samples, rows;
} qn_output_sums;
/* Adds the outputs of one run; exact: those of the float run. */
void qn_outputs_add(qn_tuner *t, const qn_tensor *exact, const qn_tensor *const *outputs, qn_output_sums *s);
qn_output_error qn_outputs_error(const qn_output_sums *s);

/* --- size.c: bytes of all weights and constants as an archive stores them. Each makes t->other_bytes true for the chosen candidates. */
/* Before anything is measured; constants that only samples tell of are not counted. */
qn_status qn_size_estimate(qn_tuner *t);
/* Of what the choice compiles to. Where qn_needs_compiling, t->realised is that afterwards. */
qn_status qn_size_count(qn_tuner *t, uint64_t *bytes);
/* Whether the chosen widths have what only a compile finds: scales of activations, factors between channels. */
bool qn_needs_compiling(const qn_tuner *t);

/* --- state.c: measured errors kept in a file, so that an interrupted tuning goes on where it was */
qn_status qn_state_open(qn_tuner *t, const char *path, const char *key);
qn_status qn_state_add(qn_tuner *t, size_t unit, const qn_candidate *c);
void qn_state_remove(qn_tuner *t);

/* --- solve.c: the choice of widths, and the curve */
typedef struct qn_solution {
	qn_frontier frontier; /* of weights */
	qn_hull_point *hull;
	size_t n_hull;
	int *first;       /* candidates of the hull's first point */
	size_t at;        /* the chosen point of the frontier */
	double gap;       /* no allocation of these bytes has an error less than that of the point by more; 0: it is optimal */
	qn_frontier acts; /* of activations with these weights: integer products against error. Empty where they are not tuned */
	size_t acts_at;   /* the chosen point of it */
	double act_limit; /* the most error that they were allowed */
} qn_solution;
void qn_solve(qn_tuner *t, qn_solution *s);
/* Weights of a point, and with them the activations that take the fewest products within act_limit. */
void qn_solution_choose(qn_tuner *t, qn_solution *s, size_t point, double act_limit);
/* The modelled error of the choice, and what of it is that of activations. */
double qn_solution_error(const qn_solution *s);
double qn_solution_act_error(const qn_solution *s);
/* The frontier's bytes are of units alone. */
uint64_t qn_total_bytes(const qn_tuner *t, uint64_t of_units);
double qn_bits_a_weight(const qn_tuner *t, uint64_t of_units);
/* The budget of units for that of the options; false: none was given. */
bool qn_budget(const qn_tuner *t, uint64_t *of_units);

/* --- verify.c */
/* Reads the samples that allocations are executed on, where any are, and runs the float graph on them. */
qn_status qn_checks_open(qn_tuner *t);
/* The model as it would be compiled with the chosen widths. *out is freed by the caller, whatever the status. */
qn_status qn_realise(qn_tuner *t, quern_model **out);
/* The same executed on the samples that the options name, or on those of the calibration: the error of the worst output, as an evaluation measures it. */
qn_status qn_verify(qn_tuner *t, qn_output_error *out);

#endif
