/* plan.h - layers with their roles, and the widths asked for and given. A layer is one use of a weight: a linear layer, an embedding
 * gather, a convolution, or another operator that reads a constant matrix. */
#ifndef QN_PLAN_H
#define QN_PLAN_H

#include "passes/pass.h"
#include <quern/config.h>

typedef enum qn_role {
	QN_ROLE_NONE, /* `why` says why */
	QN_ROLE_QUERY, QN_ROLE_KEY, QN_ROLE_VALUE,
	QN_ROLE_QKV, /* several of the three in one weight: see parts */
	QN_ROLE_OUTPUT, QN_ROLE_FFN, QN_ROLE_HEAD, QN_ROLE_EMBEDDING,
	QN_ROLE_COUNT
} qn_role;

const char *qn_role_name(qn_role r); /* "query" ...; "" for none */

typedef enum qn_form { QN_FORM_Q4_0, QN_FORM_Q8_1, QN_FORM_I8, QN_FORM_F16, QN_FORM_F32 } qn_form;
const char *qn_form_name(qn_form f); /* "q4_0" ... */

/* Output channels (rows of the stored [N, K]) of a fused weight that belong to one role. */
typedef struct qn_part {
	qn_role role;
	int64_t *rows; /* ascending */
	int64_t n;
	int weight_bits;
	qn_form form;
} qn_part;

enum { QN_MOST_ACT_BITS = 16 }; /* wider activations are float */

/* Bounds of the factors of channels: what is beyond makes channels vanish or overflow. */
#define QN_LEAST_FACTOR 1e-12f
#define QN_MOST_FACTOR 1e12f

typedef enum qn_origin { QN_FROM_DEFAULT, QN_FROM_ROLE, QN_FROM_LOADED, QN_FROM_PIN, QN_FROM_OVERRIDE, QN_FROM_TUNED, QN_FROM_FALLBACK } qn_origin;
const char *qn_origin_name(qn_origin o);

/* What a layer's rounding does to its output, against float; NAN: not known. */
typedef struct qn_layer_error {
	double cosine, sqnr, largest; /* sqnr in dB */
} qn_layer_error;
enum { QN_LAYER_ERRORS = 3 };
extern const char *const qn_layer_error_names[QN_LAYER_ERRORS]; /* in files, in the order of the fields */

typedef struct qn_layer {
	qn_node *node;
	int weight_in;           /* which input of the node is the weight */
	bool tied;               /* an embedding table and a layer have this matrix in common, which is stored once */
	const char *name;        /* ONNX node */
	const char *weight;      /* ONNX initializer or Constant output that holds the data */
	const char *output;      /* ONNX name of the layer's output */
	qn_role role;
	const char *why;         /* why there is no role; NULL where there is one */
	int block;               /* -1: outside the blocks */
	bool cross;              /* belongs to a cross attention */
	qn_part *parts;          /* of a fused weight */
	int n_parts;
	int64_t shape[QN_MAX_RANK]; /* of the initializer, as in the file */
	int rank;
	qn_dtype stored_type;    /* in the file */
	int64_t n, k;            /* output channels, contraction length; 0 where it is no matrix product */
	const char *not_q4;      /* why Q4_0 cannot hold it; NULL where it can */
	/* widths */
	int weight_bits, act_bits;  /* act_bits over 16: float activations */
	/* chosen by calibration; act_scale 0: not calibrated */
	float act_scale;
	int act_zero_point;         /* 0 for symmetric methods */
	float act_low, act_high;    /* range that the scale covers */
	const float *balance;       /* [k]: the activation is divided and the weight multiplied by it, channel by channel; NULL: none. The pass
				     * fold_balance puts both into the graph; later passes find them there */
	/* of the configuration, with its layer overrides */
	float act_scale_min, weight_scale_min, min_clip_ratio;
	/* made ahead of emission by a rounding that needs samples; NULL: the weight is rounded when it is written */
	const qn_tensor *ready_weight; /* of the form's type, [n, k] */
	const qn_tensor *ready_scale;  /* f32 [n], for i8 */
	const qn_tensor *ready_bias;   /* f32 [n]: replaces the bias (or is one where there was none) */
	const char *rounding;      /* "gptq" or "importance" where samples rounded the weight; NULL: it was rounded plainly */
	const char *rounding_note; /* why plainly though samples were to, or what the targets of gptq lack; NULL: nothing to say */
	const float *equalized;  /* [k]: the tensor that it reads was divided and the weight multiplied by it, channel by channel, ahead of all other passes that
				  * quantize; NULL: it was not. Loaded from an allocation or chosen by the pass equalize */
	const float *divided;    /* [n]: the result was divided by it, channel by channel, for the layers that read it; NULL: it was not */
	const int64_t *order;    /* [n]: channel i of the result is channel order[i] of the float graph's; NULL: the order is the same */
	qn_value *joined;        /* of a layer that was split by rows (node NULL): its parts' results in order */
	qn_origin origin;
	bool weight_pinned, act_pinned; /* its width is that of a pin or an override */
	qn_form form;
	const char *reason;      /* why it got another form than asked */
	const char *act_reason;  /* why its activations stay float though they were to be quantized; NULL otherwise */
	uint64_t bytes;          /* of the stored form */
	const qn_layer_error *error; /* NULL: not measured */
} qn_layer;

/* What is known of an attention besides the layers around it. */
typedef struct qn_attention {
	const char *name;   /* of its softmax */
	int block;
	bool cross;
	int64_t heads;      /* of queries; 0: not known */
	bool rotary;        /* positions turn its queries */
	bool mask_added, mask_where;
	bool position_bias; /* learned numbers are added to the scores */
} qn_attention;

/* A tensor whose channels could be scaled for the layers that read it, and what came of it. */
typedef struct qn_equalization {
	const char *tensor; /* ONNX name */
	const char *source; /* ONNX node that makes its channels: a norm, or a linear layer */
	size_t layers;      /* that read it */
	const char *why;    /* it stays as it is; NULL: the factors are folded */
	double error;       /* squared rounding error of the layers with the best factors, over that without; NAN: not measured */
} qn_equalization;

struct qn_plan {
	qn_arena *arena;
	qn_layer *layers; /* in graph order */
	size_t n, cap;
	qn_attention *attentions; /* in graph order */
	size_t n_attentions, cap_attentions;
	qn_equalization *equalizations; /* by the pass equalize */
	size_t n_equalizations, cap_equalizations;
	bool equalization_done; /* factors are chosen, also where there are none */
	const quern_config *config;
	uint64_t other_bytes;    /* biases, gains, tables: stored as they are */
	const char *file;        /* the model's file name without its folder */
	const char *fingerprint; /* of the model as it was in the file; NULL where no allocation is saved or loaded */
	const struct qn_allocation *loaded; /* an allocation to start from; NULL: none */
	const struct qn_output_scales *outputs; /* of graph outputs, by calibration or a loaded allocation; entries without a name are not known */
	size_t n_outputs;
	const struct qn_tuning *tuning; /* how the widths were found, passes/tune/curve.h; NULL: not by a tuning */
	struct qn_stored_weight *stored; /* weights in their stored forms, once the pass weights made them: passes/stored.h */
	size_t n_stored, cap_stored;
};

/* Bits of a layer's codes. A weight that its own width could not hold went to i8, which has room for all 8. */
static inline int qn_form_levels(qn_form form, int bits) { return form == QN_FORM_I8 && bits <= 4 ? 8 : bits; }

/* Fills the plan with the layers of a graph, roles still open. */
qn_status qn_plan_collect(qn_graph *g, qn_plan *p);
/* Whether the layer's emitted form needs a range that calibration finds: i8 with activations of up to 16 bits, other forms up to 8 bits; not where
 * the scale is taken at run time. */
bool qn_layer_needs_range(const qn_layer *l, const quern_config *c);
/* Whether a value is a head layer's result but for views. */
bool qn_plan_is_logits(qn_plan *p, const qn_value *v);
/* Whether outputs of the graph are logits, and each layer with a role reaches one: then their error alone tells what any layer does. */
bool qn_plan_logits_tell_all(qn_plan *p, const qn_graph *g);
qn_layer *qn_plan_find(qn_plan *p, const qn_node *n); /* NULL when the node has no layer */

#endif
