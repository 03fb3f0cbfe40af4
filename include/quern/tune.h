/* tune.h - widths that a size or an accuracy allows, found by measurement. Included by quern.h. */
#ifndef QUERN_TUNE_H
#define QUERN_TUNE_H

/* One and only one of the first three is set; zeros and NULLs are defaults. */
typedef struct quern_tune_options {
	uint64_t max_bytes; /* of all weights and constants as stored, before the archive is compressed */
	double max_bits;    /* a weight, scales included: mean over the layers with a role, tables only where `embeddings` is set */
	double min_cosine;  /* of each output with float, mean over samples, as quern_eval finds it: 0 < c < 1 */
	bool activations;   /* those of layers with int8 weights are tuned too, 8 bits or 16; else they are as configured */
	double act_share;   /* how much error 8-bit activations may add, for each part that the weights have; 0: 1 */
	bool embeddings;    /* embedding tables are tuned too; else they keep the configured width */
	const char *check_samples; /* what allocations are executed on, as in quern_config_calibration; NULL: the calibration samples, which the rounding has seen */
	int checks;         /* so many points of the curve are compiled and executed; with min_cosine the chosen one always is */
	const char *state;  /* measured errors are kept in this file, which stays, and must be of this tuning where it is there; NULL: in `output`.partial, which is removed on success */
	const char *curve;  /* the whole result as JSON goes to this file; NULL: nowhere */
} quern_tune_options;

typedef struct quern_tuning quern_tuning;

/* Gives each layer 4, 8 or 16 bits (those that its weight can have) so that the error of the graph's outputs is least for the size, or the size least for the
 * error. The error of each layer and width is measured: only that layer quantized, all else float, on the calibration samples, which `config` must name. Errors are
 * 1 - cosine (of an output with a vector for each position, half of it as it is and half of its mean over the positions), or, for a size and a model with
 * logits that every layer reaches, bits of divergence a row. They are taken to add up; for that model of costs the result is optimal, or
 * quern_tuning_summary has the gap. Widths that `config` fixes (by role, pins, 16 bits) stay. Rounding: what `config` says, gptq where it says nothing.
 *
 * With `activations`, the layers whose weight got int8 then get activations of 8 bits (one integer product) or 16 (two), so that the products are fewest while the
 * activations' error, measured likewise, is at most act_share times that of the weights; with min_cosine, weights may use 1 / (1 + act_share) of the allowed error, and
 * activations what they leave. Widths of activations that `config` gives stay.
 *
 * Writes the allocation file `output` (docs/allocation.md), for quern_config_load_bits. Interrupted through the progress callback it leaves only the state file, and
 * the same call goes on from there, with the same result. QUERN_ERR_CONFIG when a budget cannot be met; the message says what can. *result may be NULL; strings
 * live as long as it does. */
QUERN_API quern_status quern_tune(quern_context *ctx, const char *model, const quern_config *config, const quern_tune_options *options, const char *output,
	quern_tuning **result);
QUERN_API void quern_tuning_free(quern_tuning *tuning);

/* An allocation: its size and its error. */
typedef struct quern_tuning_point {
	uint64_t bytes;
	double bits;         /* a weight */
	double error;        /* as the model of costs adds it up */
	double measured;     /* of the worst output, executed; NaN: it was not */
	const char *changed; /* node of the layer that is wider than in the point before; NULL: the first, or several layers */
	int weight_bits;     /* of that layer; 0 without one */
} quern_tuning_point;

typedef struct quern_tuning_summary {
	const char *measure; /* "cosine": errors are 1 - cosine; "kl": bits of divergence a row of logits */
	size_t samples;
	quern_tuning_point chosen;
	double gap;          /* the chosen error is at most so much over the least for its size; 0: it is the least */
	size_t layers[3];    /* how many got 4, 8 and 16 bits */
	size_t fixed;        /* layers whose width was fixed, or that can have only one */
	size_t act_layers[2]; /* how many got activations of 8 and of 16 bits; 0, 0 where they were not tuned */
	double act_error;    /* what activations add to the chosen error, as the model of costs adds it up */
	double narrow;       /* part of all layers' multiply-adds in products of 8-bit integers */
} quern_tuning_summary;
QUERN_API void quern_tuning_get(const quern_tuning *tuning, quern_tuning_summary *out);

/* Points that are optimal for their size and that differ by one layer each, from the smallest to the largest. */
QUERN_API size_t quern_tuning_points(const quern_tuning *tuning);
QUERN_API void quern_tuning_at(const quern_tuning *tuning, size_t i, quern_tuning_point *out);
/* All of it as JSON: layers with the error of each width, the curve, the frontier. */
QUERN_API const char *quern_tuning_json(const quern_tuning *tuning);

#endif
