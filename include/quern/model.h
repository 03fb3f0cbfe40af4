/* model.h - contexts, models, compiling and running. Included by quern.h. */
#ifndef QUERN_MODEL_H
#define QUERN_MODEL_H

typedef struct quern_options {
	quern_alloc_fn alloc; /* NULL: the system's */
	void *alloc_user;
	quern_log_fn log;     /* NULL: silence */
	void *log_user;
	quern_progress_fn progress;
	void *progress_user;
	int threads; /* 0: as many as the machine has; results do not depend on it */
} quern_options;

/* NULL only when the heap is exhausted. `options` may be NULL and is copied. Free models and configurations before their context. */
QUERN_API quern_context *quern_open(const quern_options *options);
QUERN_API void quern_close(quern_context *ctx);
QUERN_API void quern_set_threads(quern_context *ctx, int threads); /* 0: all cores */
/* The text of the last failed call on this context; valid until the next call. */
QUERN_API const char *quern_message(const quern_context *ctx);

typedef struct quern_model quern_model;

/* Loads an ONNX file, infers its symbolic shapes, finds its layers and their roles and resolves their widths. Weights stay in the mapped file, which must not
 * change while the model lives. On failure *model is NULL. The configuration must outlive the model. */
QUERN_API quern_status quern_model_load(quern_context *ctx, const char *path, const quern_config *config, quern_model **model);
QUERN_API void quern_model_free(quern_model *model);

/* One use of a weight. Strings live as long as the model. */
typedef struct quern_layer {
	const char *node, *weight, *output; /* ONNX names */
	const char *op;
	const char *role;   /* "query" ... "embedding", "qkv"; "" where there is none */
	const char *why;    /* why there is none, else NULL */
	int block;          /* -1: outside the blocks */
	bool cross;         /* of a cross attention */
	int rank;
	int64_t shape[8];   /* of the initializer, as in the file */
	const char *type;   /* as in the file: "f32" */
	uint64_t bytes;     /* as in the file */
	const char *not_q4; /* why Q4_0 cannot hold it, else NULL */
	int weight_bits, act_bits; /* asked for; act_bits 32: float */
	const char *form;   /* given: "q4_0", "q8_1", "i8", "f16", "f32" */
	const char *origin; /* of the width: "default", "role", "pin", "override", "loaded", "tuned", "fallback" */
	const char *reason; /* why the form is another than asked, else NULL */
	const char *rounding; /* "gptq" or "importance" where samples rounded the weight, NULL where it was rounded plainly; known once the model is compiled */
	const char *rounding_note; /* why plainly though samples were to, or what the targets of gptq lack, else NULL */
	const char *act_reason; /* why activations that were to be quantized stay float, else NULL; known once the model is compiled */
	uint64_t stored_bytes;
	int n_parts;        /* of a fused weight */
} quern_layer;

/* Output channels of a fused weight that belong to one role; rows ascending. */
typedef struct quern_part {
	const char *role;
	const int64_t *rows;
	int64_t n;
	int weight_bits;
} quern_part;

QUERN_API size_t quern_model_layers(const quern_model *model);
QUERN_API void quern_model_layer(const quern_model *model, size_t i, quern_layer *out);
QUERN_API void quern_model_part(const quern_model *model, size_t layer, int part, quern_part *out);
/* An attention with a softmax. */
typedef struct quern_attention {
	const char *node;   /* of its softmax */
	int block;
	bool cross;
	int64_t heads;      /* of queries; 0: not known */
	bool rotary;        /* positions turn its queries and keys */
	const char *mask;   /* "none", "added", "where", "both" */
	bool position_bias; /* learned numbers are added to the scores */
} quern_attention;

QUERN_API size_t quern_model_attentions(const quern_model *model);
QUERN_API void quern_model_attention(const quern_model *model, size_t i, quern_attention *out);
/* A tensor whose channels could be scaled for the layers that read it (quern_config_equalize), and what came of it. Known once the model is compiled. */
typedef struct quern_equalization {
	const char *tensor; /* ONNX name */
	const char *source; /* ONNX node that makes its channels: a norm, or a linear layer */
	size_t layers;      /* that read it; 0 where the channels of the source come to no such tensor */
	const char *why;    /* it stays as it is, NULL where its factors are folded */
	double error;       /* squared rounding error of those layers with the best factors over that without; negative: not measured */
} quern_equalization;

QUERN_API size_t quern_model_equalizations(const quern_model *model);
QUERN_API void quern_model_equalization(const quern_model *model, size_t i, quern_equalization *out);
/* Bytes of constants that are no layer's weight: biases, gains, tables. */
QUERN_API uint64_t quern_model_other_bytes(const quern_model *model);
/* The graph as text, after the named pass ("load", "shapes", ...; NULL: the last). The text lives as long as the model. */
QUERN_API const char *quern_model_dump(quern_model *model);

typedef struct quern_summary {
	uint64_t model_bytes;   /* weights in the file */
	uint64_t archive_bytes; /* on disk */
	size_t fallbacks;       /* layers that got a wider form than asked */
} quern_summary;

/* Writes the archive; the kind follows from the name (.nnef.tgz, .nnef.tar, else a folder). A failure leaves nothing behind and an older archive
 * untouched. A model can be compiled once. `summary` may be NULL. */
QUERN_API quern_status quern_compile(quern_model *model, const char *path, quern_summary *summary);

/* How far a value of the compiled graph is from float, over all samples. */
typedef struct quern_damage {
	const char *name;       /* of the graph output, or of the layer's node */
	const char *value;      /* ONNX name of the value that was compared */
	bool is_output;
	size_t layer;           /* index into the model's layers; of a layer only */
	const char *role, *form;/* "" and NULL for an output */
	int weight_bits, act_bits; /* asked for; act_bits 32: float */
	double cosine;          /* mean over the samples */
	double sqnr_db;         /* of the sums over the samples; infinite where all is equal */
	double largest_error;
	double kl_bits;         /* of an output that a head layer makes: mean over its rows of the divergence from float, in bits; else negative */
} quern_damage;

typedef struct quern_evaluation quern_evaluation;

/* Compiles as `config` says, without writing an archive, and runs the compiled graph, with the archive's arithmetic, and the float graph on every sample: a
 * .npz, a folder of them, or ONNX test_data_set folders. `outputs` (NULL: nowhere) names a .npz for the compiled graph's outputs of the first sample. The
 * result holds the graph outputs in order, then the layers, most damaged first; strings live as long as it does. The configuration must outlive it. */
QUERN_API quern_status quern_eval(quern_context *ctx, const char *model, const quern_config *config, const char *samples, const char *outputs,
	quern_evaluation **result);
QUERN_API void quern_evaluation_free(quern_evaluation *evaluation);
QUERN_API size_t quern_evaluation_samples(const quern_evaluation *evaluation);
QUERN_API size_t quern_evaluation_count(const quern_evaluation *evaluation);
QUERN_API void quern_evaluation_get(const quern_evaluation *evaluation, size_t i, quern_damage *out);

/* Float execution of an ONNX file on the CPU. */
typedef struct quern_runner quern_runner;
QUERN_API quern_status quern_runner_load(quern_context *ctx, const char *path, const quern_config *config, quern_runner **runner);
QUERN_API void quern_runner_free(quern_runner *runner);
/* Inputs by name from a .npz; outputs by name to a .npz. */
QUERN_API quern_status quern_run_npz(quern_runner *runner, const char *input, const char *output);
/* An ONNX test_data_set folder: runs input_N.pb, compares with output_N.pb. A difference beyond atol + rtol x |expected| is QUERN_ERR_NUMERIC and the message
 * says where. */
QUERN_API quern_status quern_run_test_data(quern_runner *runner, const char *folder, double rtol, double atol);

#endif
