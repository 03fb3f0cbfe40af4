/* graph.h - the intermediate representation: values, nodes and the few verbs that rewrite them.
 *
 * A graph owns everything through one arena. Nodes are kept in a doubly linked list that is a topological order whenever
 * qn_graph_check passes. A value has at most one producer (none: a graph input or a constant) and knows its uses.
 *
 * Constants. A value is a constant when `is_const` is set. Its data is either resident (`fact.value`), small or borrowed
 * from the mapped file, or deferred: a recipe, namely its producer chain or its `make` function, that qn_graph_load runs into a scratch arena
 * each time the data is needed. So a transposed weight of a model of many GB costs no memory until it is written. */
#ifndef QN_GRAPH_H
#define QN_GRAPH_H

#include "graph/dim.h"

typedef struct qn_op qn_op;
typedef struct qn_node qn_node;
typedef struct qn_value qn_value;
typedef struct qn_graph qn_graph;

/* Nodes that passes make have the forms of this ai.onnx opset (axes of Unsqueeze, ReduceMean ... are inputs). */
#define QN_OWN_OPSET 18

/* What is known of a value: type, shape, and, where it is known at compile time, the content. */
typedef struct qn_fact {
	qn_dtype type;
	qn_shape shape;
	/* NULL: not known. For an integer value that is a function of symbolic dims value->type is QN_DIM, while `type` stays
	 * the integer type of the model. */
	const qn_tensor *value;
} qn_fact;

typedef struct qn_use {
	qn_node *node;
	int input;
} qn_use;

struct qn_value {
	const char *name; /* unique in the graph; the ONNX name for everything that was in the file */
	qn_fact fact;
	qn_node *producer;
	int producer_output;
	qn_use *uses;
	size_t n_uses, cap_uses;
	bool is_const; /* known at compile time, data resident or deferred; QN_DIM content counts: it is known up to the symbols */
	bool is_input, is_output;
	/* A deferred constant without producer is made by this function into `scratch`, each time it is loaded. */
	qn_status (*make)(qn_graph *g, void *arg, qn_arena *scratch, const qn_tensor **out);
	void *make_arg;
	const char *weight; /* for a constant: the initializer (or Constant output) its data came from, else NULL */
	int id;
};

typedef enum qn_attr_kind {
	QN_ATTR_INT, QN_ATTR_FLOAT, QN_ATTR_STRING, QN_ATTR_TENSOR, QN_ATTR_INTS, QN_ATTR_FLOATS, QN_ATTR_STRINGS, QN_ATTR_GRAPH
} qn_attr_kind;

typedef struct qn_attr {
	const char *name;
	qn_attr_kind kind;
	int64_t i;
	float f;
	const char *s;
	const qn_tensor *t;
	const int64_t *ints;
	const float *floats;
	const char *const *strings;
	size_t n;           /* of ints, floats, strings */
	qn_graph *graph;    /* a subgraph body; values that it captures are resolved by name in the outer graph when it is inlined */
} qn_attr;

struct qn_node {
	const qn_op *op;
	const char *op_type, *domain; /* as in the file ("" is ai.onnx); op->name for nodes that passes made */
	const char *name;             /* unique; the ONNX node name, or the op type with the first output's name */
	int opset;                    /* version of its domain that the model imports */
	qn_value **in;                /* NULL where an optional input is absent */
	int n_in;
	qn_value **out;               /* NULL where an optional output is absent */
	int n_out;
	qn_attr *attrs;
	int n_attrs;
	qn_node *prev, *next;
	int id;
};

struct qn_graph {
	qn_ctx *ctx;
	qn_arena *arena;
	qn_dims *dims;
	const char *name;
	qn_node *first, *last;
	qn_value **inputs;
	int n_inputs;
	qn_value **outputs;      /* values may repeat; the order is the contract, the names are output_names */
	const char **output_names;
	int n_outputs;
	qn_value **values;       /* all ever made, by id; dead ones are NULL */
	size_t n_values, cap_values;
	struct qn_names *names;  /* value and node names in use */
	int next_node_id;
};

qn_graph *qn_graph_new(qn_arena *a, qn_ctx *ctx, qn_dims *dims);

/* --- building -------------------------------------------------------------------------------------------- */
/* A new value. `name` is taken when free, else made unique with a suffix; NULL: made up. */
qn_value *qn_graph_value(qn_graph *g, const char *name);
qn_value *qn_graph_find_value(qn_graph *g, const char *name); /* NULL when there is none */
/* A resident constant. The data is borrowed and must live as long as the graph. */
qn_value *qn_graph_const(qn_graph *g, const char *name, const qn_tensor *t);
/* A node before `before` (NULL: at the end) with fresh outputs named after `name`. Arrays are copied; attributes may be added with
 * qn_node_set_*. `op` comes from qn_op_find; inputs may be NULL. */
qn_node *qn_graph_node(qn_graph *g, qn_node *before, const qn_op *op, const char *name, qn_value *const *in, int n_in, int n_out);
/* The usual case of the above: the operator by name (the quern domain or ai.onnx), one output, which is returned. Inputs end with NULL
 * unless `n_in` says otherwise. */
qn_value *qn_graph_apply(qn_graph *g, qn_node *before, const char *op, const char *name, qn_value *const *in, int n_in);

void qn_node_set_int(qn_graph *g, qn_node *n, const char *name, int64_t v);
void qn_node_set_float(qn_graph *g, qn_node *n, const char *name, float v);
void qn_node_set_string(qn_graph *g, qn_node *n, const char *name, const char *v);
void qn_node_set_tensor(qn_graph *g, qn_node *n, const char *name, const qn_tensor *v); /* borrowed */
void qn_node_set_ints(qn_graph *g, qn_node *n, const char *name, const int64_t *v, size_t count);

const qn_attr *qn_node_attr(const qn_node *n, const char *name); /* NULL when absent */
int64_t qn_node_int(const qn_node *n, const char *name, int64_t otherwise);
float qn_node_float(const qn_node *n, const char *name, float otherwise);
const char *qn_node_string(const qn_node *n, const char *name, const char *otherwise);
static inline bool qn_node_has_in(const qn_node *n, int i) { return i < n->n_in && n->in[i]; }
static inline bool qn_node_has_out(const qn_node *n, int i) { return i < n->n_out && n->out[i]; }

/* --- rewriting: the only ways to change a graph ------------------------------------------------------------ */
void qn_node_set_input(qn_graph *g, qn_node *n, int i, qn_value *v); /* grows the input list as needed; v may be NULL */
/* All uses of `old`, graph outputs included, read `new` instead. Names of graph outputs are kept by output_names. */
void qn_value_replace(qn_graph *g, qn_value *old, qn_value *new_value);
/* The same, but `keep` goes on reading `old`: for nodes put behind it. */
void qn_value_replace_except(qn_graph *g, qn_value *old, qn_value *new_value, const qn_node *keep);
/* Output i is `v` from now on; what it was before is not touched otherwise. */
void qn_graph_set_output(qn_graph *g, int i, qn_value *v);
/* `v` leaves its producer and becomes a resident constant (content `t`, borrowed) under its own name. */
void qn_value_make_const(qn_graph *g, qn_value *v, const qn_tensor *t);
/* The node keeps its name, place and outputs and becomes another operator with other inputs; attributes are dropped. */
void qn_node_become(qn_graph *g, qn_node *n, const qn_op *op, qn_value *const *in, int n_in);
void qn_node_remove(qn_graph *g, qn_node *n);           /* its outputs must have no uses left */
void qn_node_move_before(qn_graph *g, qn_node *n, qn_node *before);
/* Copies the nodes of `body` before `before`: its inputs become `in`, captured names are looked up in g, its outputs go to `out`
 * (n_out values of g, not the body's). */
qn_status qn_graph_inline(qn_graph *g, const qn_graph *body, qn_node *before, qn_value *const *in, qn_value **out);
/* Removes nodes whose outputs are neither used nor graph outputs, and unused constants. */
void qn_graph_sweep(qn_graph *g);

/* --- constants --------------------------------------------------------------------------------------------- */
/* The content of a constant: resident, or computed into `scratch` from its recipe. */
qn_status qn_graph_load(qn_graph *g, qn_value *v, qn_arena *scratch, const qn_tensor **out);
/* The initializer at the root of a constant's recipe through nodes that only move or convert its elements (op trait QN_KEEPS_WEIGHT);
 * NULL where the recipe is of another kind. */
qn_value *qn_value_root(qn_value *v);

/* --- inspection -------------------------------------------------------------------------------------------- */
/* Ids valid, order topological, producers and uses agree, names unique, inputs of every node defined. */
qn_status qn_graph_check(const qn_graph *g);
/* The tests' language: one line a node. */
void qn_graph_dump(const qn_graph *g, qn_text *out);

#endif
