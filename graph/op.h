/* op.h - an operator is one row: names, arity, traits and five functions. One file an operator in graph/ops/; the build
 * collects the files and writes the table, so adding an operator touches one file. No other file switches on an
 * operator's kind: what a pass must know is a field of the row.
 *
 * A file graph/ops/foo_bar.c defines `const qn_op qn_op_foo_bar`. */
#ifndef QN_OP_H
#define QN_OP_H

#include "graph/graph.h"

typedef struct qn_emit qn_emit; /* graph/emit.h */

/* The operands of one inference or evaluation. The same call serves the compiler (symbolic shapes, few known values) and the
 * executor (constant shapes, all values known), so a shape rule is written once. */
typedef struct qn_call {
	qn_ctx *ctx;
	const qn_node *node;
	qn_dims *dims;
	qn_arena *scratch;     /* for temporaries and for inferred values; outlives the call, see the driver */
	int threads;
	const qn_fact *in;     /* one a node input; type QN_NONE where the input is absent */
	qn_fact *out;          /* what infer fills; one a node output */
	/* eval only: */
	const qn_tensor *const *x; /* inputs, aligned; NULL where absent */
	qn_tensor *y;              /* outputs: type, rank, dim and zeroed writable storage already there, as inferred; absent ones have data NULL */
	bool undecided;        /* set by eval when QN_DIM operands do not determine the result */
} qn_call;

/* Writable data of output i. */
#define QN_OUT(call, i, type) ((type *)(uintptr_t)(call)->y[i].data)
#define QN_IN(call, i, type) ((const type *)(call)->x[i]->data)

enum {
	QN_ELEMENTWISE = 1u << 0,   /* output element i depends on input elements i only, after broadcasting */
	QN_KEEPS_WEIGHT = 1u << 1,  /* moves or converts the elements of input 0 and does nothing else (Transpose, Identity, Cast, Reshape ...) */
	QN_DYNAMIC_OUTPUT = 1u << 2,/* output shape depends on data (NonZero): eval calls qn_call_resize itself */
	QN_RANDOM = 1u << 3,        /* never folded */
	QN_LAYOUT = 1u << 4,        /* a view or a permutation: element values do not change (Reshape, Transpose, Squeeze, Expand ...) */
	QN_CONVOLUTION = 1u << 6,   /* slides a kernel [out, in, ...]; the output's channels are axis 1 */
	QN_SMALL = 1u << 7,         /* takes the small types: moves elements, or converts them (Reshape, Gather, Cast, DequantizeLinear ...) */
	QN_SUBGRAPH = 1u << 5,      /* has graph attributes (If) */
	QN_HOMOGENEOUS = 1u << 8    /* a positive factor of input 0 is a factor of the result, whatever the other inputs are (Relu, Mul, Div ...) */
};

/* What the tagging pass needs to know of an operator that it does not see through. */
typedef enum qn_hint {
	QN_HINT_NONE,
	QN_HINT_CONTRACTION, /* sums products over an axis: MatMul, Einsum, Linear, Conv */
	QN_HINT_SOFTMAX,
	QN_HINT_NORM,        /* LayerNormalization and its kin */
	QN_HINT_SELECTION,   /* picks by value: TopK, ArgMax, NonZero */
	QN_HINT_POSITION     /* makes positions into angles: Cos, Sin */
} qn_hint;

struct qn_op {
	const char *name;
	const char *domain;   /* "" (ai.onnx), "com.microsoft", "quern" for target-level rows; NULL is "" */
	const char *also;     /* other spellings of the same operator, "domain:Name domain:Name", or NULL */
	int since;            /* oldest opset of the domain that this row understands; 0 is 1 */
	int min_in, max_in;   /* max -1: any number. The loader refuses nodes outside, and ai.onnx nodes where one of the first min_in is absent */
	int max_out;          /* -1: any number; 0 means 1 */
	unsigned traits;
	qn_hint hint;
	int weight_input;     /* 1 + the operand that holds a layer's weights where it is constant (Linear, Embedding, MatMul, Conv); 0: none */
	uint32_t dims_in;     /* bit i: eval can compute on QN_DIM elements of input i (bit 31: on all inputs from 31 on too) */
	/* Output types and shapes from input facts. May set out[i].value for what it knows without eval. */
	qn_status (*infer)(qn_call *c);
	/* Output data from input data. NULL: the operator only exists until it is lowered. */
	qn_status (*eval)(qn_call *c);
	/* Replaces the node by simpler nodes (inserted before it, facts of the inputs known). Runs before infer. Sets *done to false, having changed
	 * nothing, when this node is to stay as it is. */
	qn_status (*lower)(qn_graph *g, qn_node *n, bool *done);
	/* Writes the node's NNEF statements. */
	qn_status (*emit)(qn_emit *e);
};

/* The generated table, sorted by name. */
extern const qn_op *const qn_ops[];
extern const size_t qn_n_ops;

/* Whether a node is the ai.onnx operator of that name, or "quern:Name": for passes that recognize arithmetic which exporters spell out. What a pass must know of
 * a kind of operator is a field of the row instead. */
bool qn_node_is(const qn_node *n, const char *op);

/* The row for a name in a domain ("" and "ai.onnx" are one); NULL when unsupported. */
const qn_op *qn_op_find(const char *domain, const char *name);

/* --- helpers for rows ---------------------------------------------------------------------------------------- */
/* A failure that names the node: "node 'x' (Conv): ..." is put before the text. */
#define QN_OP_FAIL(c, status, ...) return qn_op_fail((c), (status), __VA_ARGS__)
qn_status qn_op_fail(qn_call *c, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);

/* An attribute axis in [-rank, rank) made non-negative; fails naming the node. */
qn_status qn_call_axis(qn_call *c, int64_t axis, int rank, int *out);
static inline bool qn_call_has(const qn_call *c, int i) { return i < c->node->n_in && c->in[i].type != QN_NONE; }
static inline bool qn_call_wants(const qn_call *c, int i) { return i < c->node->n_out && c->node->out[i]; }
/* The integers of input i, where known: rank 0 or 1, as dims (constants included). *n is -1 where the content is not known. */
qn_status qn_call_dims(qn_call *c, int i, const qn_dim **v, int *n);
/* The same where only constants will do (axes, starts that index a list); fails naming the node where they are not known. */
qn_status qn_call_ints(qn_call *c, int i, const int64_t **v, int *n);
/* axes-like parameter that is an attribute in old opsets and an input in new ones: *n is -1 when absent in both. */
qn_status qn_call_ints_attr_or_in(qn_call *c, const char *attr, int i, const int64_t **v, int *n);
/* The value dimension of a shape-like integer is data dependent: the standard message, with what to try. */
qn_status qn_call_data_dependent(qn_call *c, int i, const char *what);

/* Multidirectional broadcasting; symbols that must be equal are bound. */
qn_status qn_call_broadcast(qn_call *c, const qn_shape *a, const qn_shape *b, qn_shape *out);
/* Requires equality of two dims, binding symbols where that settles it; `what` names them in the message. */
qn_status qn_call_equate(qn_call *c, qn_dim a, qn_dim b, const char *what);
/* The row's infer, after the check that inputs of small types come to rows with QN_SMALL alone. */
qn_status qn_call_infer(qn_call *c);
/* Output 0 has the type and the shape of input 0. */
qn_status qn_infer_same(qn_call *c);
/* Output 0: type of input 0, broadcast of all inputs. */
qn_status qn_infer_broadcast(qn_call *c);

/* For QN_DYNAMIC_OUTPUT: gives output i this shape and fresh storage. */
void qn_call_resize(qn_call *c, int i, int rank, const int64_t *dim);

/* Row-major strides in elements of a shape broadcast to `rank` (0 where repeated). */
void qn_broadcast_strides(const qn_tensor *t, int rank, const int64_t *out_dim, int64_t *stride);

#endif
