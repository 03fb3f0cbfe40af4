/* qtensor.h - Q-tensors: the block-quantized weights of the tract engine, as torch_to_nnef's quantization module makes them. Included by
 * quern.h.
 *
 * A scheme holds one f16 scale for each group of values along the flattened tensor; a Q-tensor is a weight in the 4-bit form that the
 * engine reads (Q4_0), with its codes packed or compressed in memory. All is plain memory: there are no devices to move between. What is
 * made here belongs to the caller until its _free function; the context must outlive it. On failure *out is NULL. */
#ifndef QUERN_QTENSOR_H
#define QUERN_QTENSOR_H

#include <quern/quern.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quern_element { QUERN_F32, QUERN_F16 } quern_element;

/* Row-major floats, borrowed for the call. f16 elements are IEEE halves in host byte order (uint16_t). */
typedef struct quern_floats {
	quern_element type;
	int rank; /* 0..8 */
	int64_t dim[8];
	const void *data;
} quern_floats;

/* Whose arithmetic a dequantization follows: engines on ARM multiply in f16, others in f32 with the scale widened. */
typedef enum quern_machine { QUERN_MACHINE_HOST, QUERN_MACHINE_ARM, QUERN_MACHINE_OTHER } quern_machine;

/* What f16 made of the scales. Scales that f16 cannot hold at all, and NaN or infinite values, are failures (QUERN_ERR_NUMERIC); these are
 * warnings. */
typedef struct quern_scale_report {
	int64_t scales;
	int64_t subnormal;          /* below 2^-14: fewer significant bits */
	int64_t flushed;            /* became 0 though the values are not: the group is lost */
	int64_t first_weak;         /* index of the first of the two, -1 when there is none */
	float scale_min, scale_max; /* smallest and largest |scale| other than 0; both 0 when all are */
} quern_scale_report;

/* --- scheme: scale per group, f16 ------------------------------------------------------------------- */
typedef struct quern_qscheme quern_qscheme;

/* From `n_groups` f16 scales (copied; negative by convention). n_bits 1..8, group_size > 0. */
QUERN_API quern_status quern_qscheme_new(
	quern_context *ctx, int n_bits, int64_t group_size, const uint16_t *scales, int64_t n_groups, quern_qscheme **out);
/* Min-max calibration, symmetric over the full range, with negative scales: for each group x = max|v|, or with percentile < 1 the linearly
 * interpolated quantile of |v| in f32; scale = f16(x / -(2^n_bits / 2)). The number of values must be a multiple of group_size; 0 <
 * percentile <= 1. */
QUERN_API quern_status quern_qscheme_min_max(
	quern_context *ctx, const quern_floats *values, int n_bits, int64_t group_size, double percentile, quern_qscheme **out);
/* The same scheme with each scale divided by `factor`. */
QUERN_API quern_status quern_qscheme_divided(const quern_qscheme *scheme, double factor, quern_qscheme **out);
QUERN_API void quern_qscheme_free(quern_qscheme *scheme);

QUERN_API int quern_qscheme_bits(const quern_qscheme *scheme);
QUERN_API int64_t quern_qscheme_group_size(const quern_qscheme *scheme);
QUERN_API int64_t quern_qscheme_groups(const quern_qscheme *scheme);
QUERN_API const uint16_t *quern_qscheme_scales(const quern_qscheme *scheme); /* lives as long as the scheme */
QUERN_API void quern_qscheme_report(const quern_qscheme *scheme, quern_scale_report *out);

/* codes[i] = clamp(floor(v * f16(1 / scale) + (2^n_bits + 1) / 2), 0, 2^n_bits - 1), one byte a value; a zero scale gives the middle code.
 * Products and sums of f16 values are rounded to f16, as PyTorch does. As many values as the scheme has groups for. */
QUERN_API quern_status quern_qscheme_quantize(const quern_qscheme *scheme, const quern_floats *values, uint8_t *codes);
/* values[i] = (codes[i] - 2^n_bits / 2) * scale; n as above. `type`: the type that the result stands for; f16 products are rounded as on
 * ARM. */
QUERN_API quern_status quern_qscheme_dequantize(
	const quern_qscheme *scheme, const uint8_t *codes, int64_t n, quern_machine machine, quern_element type, float *values);

/* --- compressors of u8 codes ------------------------------------------------------------------------- */
/* Turns n bytes into others and back to the same n; a chain applies them in order. The calls must be thread-safe and must not keep their
 * arguments. */
typedef struct quern_u8_compressor {
	const char *name;
	void *user;
	size_t (*bound)(void *user, size_t n); /* no more than this comes out of n bytes */
	/* false: these bytes cannot be compressed so */
	bool (*compress)(void *user, const uint8_t *in, size_t n, uint8_t *out, size_t *n_out);
	/* false: `in` is not what compress makes of n_out bytes */
	bool (*decompress)(void *user, const uint8_t *in, size_t n, uint8_t *out, size_t n_out);
} quern_u8_compressor;

/* Codes of n_bits 1..8 without gaps, the first in the lowest bits; refuses larger codes. */
QUERN_API quern_u8_compressor quern_u8_bit_packing(int n_bits);
/* General purpose: runs of equal bytes; at worst 1/128 longer. */
QUERN_API quern_u8_compressor quern_u8_run_length(void);

/* --- the engine's Q4_0 tensor ------------------------------------------------------------------------ */
typedef struct quern_qtensor quern_qtensor;

/* Order of the nibbles in a file: byte i of a block holds values i and i + 16, or, for engines before 0.21.11, 2i and 2i + 1. */
typedef enum quern_q4_order { QUERN_Q4_ORDER, QUERN_Q4_ORDER_LEGACY } quern_q4_order;

/* `values` quantized by `scheme` (copied), which must have 4 bits and groups of 32; 2 to 4 dims, those after the first multiply to a
 * multiple of 32. `chain` holds n_chain compressors (copied) for the codes in memory; it may be NULL when n_chain is 0. */
QUERN_API quern_status quern_qtensor_new(quern_context *ctx, const quern_floats *values, const quern_qscheme *scheme, quern_machine machine,
	const quern_u8_compressor *chain, size_t n_chain, quern_qtensor **out);
/* Calibrates by min-max, then the above with bit packing for this machine. */
QUERN_API quern_status quern_qtensor_min_max(quern_context *ctx, const quern_floats *values, double percentile, quern_qtensor **out);
QUERN_API void quern_qtensor_free(quern_qtensor *tensor);

QUERN_API const quern_qscheme *quern_qtensor_scheme(const quern_qtensor *tensor); /* lives as long as the tensor */
QUERN_API int quern_qtensor_rank(const quern_qtensor *tensor);
QUERN_API const int64_t *quern_qtensor_dims(const quern_qtensor *tensor);
QUERN_API int64_t quern_qtensor_count(const quern_qtensor *tensor);
QUERN_API size_t quern_qtensor_code_bytes(const quern_qtensor *tensor); /* of the codes as kept in memory */
/* quern_qtensor_count values each. The floats are those that the tensor's machine computes with, in the type that it was made from. */
QUERN_API quern_status quern_qtensor_codes(const quern_qtensor *tensor, uint8_t *codes);
QUERN_API quern_status quern_qtensor_floats(const quern_qtensor *tensor, float *values);
/* The NNEF .dat file: its size, its bytes. */
QUERN_API size_t quern_qtensor_dat_bytes(const quern_qtensor *tensor);
QUERN_API quern_status quern_qtensor_dat(const quern_qtensor *tensor, quern_q4_order order, uint8_t *bytes);
/* Writes dir/label.dat (making the folders that the label names, written beside and renamed). Where the file exists, succeeds only when its
 * bytes are the same (else QUERN_ERR_CONFIG). A label stays inside dir: relative, no "..". */
QUERN_API quern_status quern_qtensor_write(const quern_qtensor *tensor, const char *dir, const char *label, quern_q4_order order);

/* --- one file to another ----------------------------------------------------------------------------- */
typedef struct quern_convert_options {
	const char *format;   /* "q4_0", "q4_0-legacy", "q8_1", "i8", "f16", "f32" */
	const char *rounding; /* of q4_0: "minmax", "signed", "mse"; NULL: signed */
	double percentile;    /* of minmax: 0 < p <= 1 */
	int bits;             /* levels: q4_0 1..4, i8 2..8; 0: the format's most */
} quern_convert_options;

/* Fills in the defaults: q4_0, signed, 1, 0. */
QUERN_API void quern_convert_defaults(quern_convert_options *options);

typedef struct quern_convert_summary {
	int rank;
	int64_t shape[8];
	const char *source_type;             /* "f32" */
	uint64_t source_bytes, stored_bytes; /* of data; stored_bytes with i8's scales */
	double snr_db;                       /* infinite when nothing was lost, NaN when non_finite */
	int64_t non_finite;                  /* NaN and infinite values, which only f16 and f32 carry over */
	quern_scale_report scales;           /* all 0 for f32; of f16, the values themselves */
	bool scales_written;                 /* i8: its scales went to a second file */
} quern_convert_summary;

/* Reads a .npy file of f16, f32 or f64 (which is first rounded to f32) and writes it as a .dat file, beside and renamed. i8 has one scale
 * for each item of the first axis: they go to a second file of shape [N, 1, ...], f32, whose name has ".scale" before its ".dat". `summary`
 * may be NULL. */
QUERN_API quern_status quern_convert_npy(quern_context *ctx, const char *npy_path, const char *dat_path,
	const quern_convert_options *options, quern_convert_summary *summary);

#ifdef __cplusplus
}
#endif
#endif
