/* loader.h - what the parts of the ONNX loader share. Messages name tensor, node and place; qn_onnx_load puts the file before them. */
#ifndef QN_ONNX_LOADER_H
#define QN_ONNX_LOADER_H

#include "graph/names.h"
#include "graph/onnx/wire.h"
#include "graph/op.h"

enum {
	QN_KNOWN_IR = 14,
	QN_KNOWN_OPSET = 28,
	QN_OLDEST_OPSET = 7,
	QN_MAX_NESTING = 64,            /* subgraphs and function calls inside one another */
	QN_MAX_FUNCTION_NODES = 1 << 18 /* nodes that the inlining of functions may make, a call counting as 8 */
};

typedef struct qn_loader {
	qn_ctx *ctx;
	qn_arena *a;        /* the graph's */
	qn_arena *tmp;      /* gone after the load: the unpacked messages and tables */
	const char *folder; /* where external data is looked for; NULL: refused */
	qn_lifted lifted;
	const Qn__ModelProto *model;
	qn_names *functions; /* qn_function_find */
	qn_names *files;     /* external files by location and by real path, as qn_bytes * */
	qn_names *taken;     /* value names of all graphs: subgraphs find outer values by name, so names are unique over the whole model */
	qn_dims *dims;
	int nesting;
	size_t function_nodes;
} qn_loader;

static inline const char *qn_str(const char *s)
{
	return s ? s : "";
}
static inline const char *qn_domain(const char *s)
{
	return !s || !strcmp(s, "ai.onnx") ? "" : s;
}

/* --- payload.c, external.c, sparse.c: tensors -------------------------------------------------------------- */
/* `subject` is how messages call the tensor: "tensor 'w'", "constant 'c'". */

/* The reason why a tensor of this type cannot be used, or NULL; checked where the tensor is used, so that an unused one does no harm. */
const char *qn_payload_refusal(qn_loader *ld, const char *subject, const Qn__TensorProto *t);
/* Dims, type and elements checked against each other before anything is allocated. The data is a view of the file, or is in `a`. */
qn_status qn_payload_tensor(qn_loader *ld, const char *subject, const Qn__TensorProto *t, const qn_tensor **out);
/* Checks dims and gives their product; false products (overflow, negative dims) are errors. `out` gets rank and dims. */
qn_status qn_payload_dims(qn_loader *ld, const char *subject, const int64_t *dims, size_t n, qn_tensor *out, int64_t *count);
/* The element type of an ONNX type number; QN_NONE, with *name set for the message, where graphs cannot hold it. */
qn_dtype qn_payload_type(int onnx_type, const char **name);
/* `need` bytes of a tensor's external file. */
qn_status qn_external_bytes(qn_loader *ld, const char *subject, const Qn__TensorProto *t, size_t need, qn_bytes *out);
/* A dense copy in `a`. */
qn_status qn_sparse_tensor(qn_loader *ld, const char *subject, const Qn__SparseTensorProto *s, const qn_tensor **out);

/* --- opset.c: versions and functions ------------------------------------------------------------------------- */
typedef struct qn_opsets {
	Qn__OperatorSetIdProto **list;
	size_t n;
} qn_opsets;

/* Domains given twice with different versions, versions below 1. `owner` is for messages. */
qn_status qn_opsets_check(qn_loader *ld, qn_opsets o, const char *owner);
qn_status qn_model_versions(qn_loader *ld); /* IR version and opsets of the model */
/* The version that a node of `domain` is of: from the function's list, else the model's; 0 where neither names the domain. */
int qn_opset_of(const qn_loader *ld, const Qn__FunctionProto *function, const char *domain);
qn_status qn_functions_collect(qn_loader *ld);
typedef struct qn_function {
	const Qn__FunctionProto *proto;
	bool surveyed;
} qn_function;

qn_function *qn_function_find(const qn_loader *ld, const Qn__NodeProto *n); /* the model-local function that a node calls, or NULL */
static inline bool qn_is_constant(const qn_loader *ld, const Qn__NodeProto *n)
{
	return !strcmp(qn_str(n->op_type), "Constant") && !*qn_domain(n->domain) && !qn_function_find(ld, n);
}

/* --- survey.c: operators without a row ------------------------------------------------------------------------ */
/* Looks at every node of the model, its subgraphs and the functions that it calls; one failure lists all that is not supported. */
qn_status qn_survey(qn_loader *ld);

/* --- sort.c: order ---------------------------------------------------------------------------------------------- */
const char *qn_node_title(qn_arena *a, const Qn__NodeProto *n); /* the name, else the op type with the first output's name */
/* Positions in `nodes` such that producers come first, otherwise in file order. Cycles and names produced twice are errors. */
qn_status qn_sort_nodes(qn_loader *ld, Qn__NodeProto *const *nodes, size_t n, size_t **order);

/* --- scope.c: names --------------------------------------------------------------------------------------------- */
/* What a name stands for. */
typedef struct qn_binding {
	qn_value *value;     /* NULL: a function's input that the call leaves out, or a refused constant */
	const char *refused; /* why this constant cannot be used: a failure once something reads it */
} qn_binding;

/* An expansion of a function. */
typedef struct qn_frame {
	const struct qn_frame *caller; /* NULL: called from the model */
	const Qn__FunctionProto *function;
	qn_names *attrs; /* attributes of the call and defaults, by name, as Qn__AttributeProto * */
} qn_frame;

/* The names of one node list: a graph, or a function's body at one place. */
typedef struct qn_scope {
	struct qn_scope *parent; /* of a subgraph: where its other names come from */
	qn_graph *g;             /* where nodes are made */
	const qn_frame *frame;   /* NULL outside functions */
	const char *prefix;      /* put before inner names of functions */
	bool is_main;
	qn_names *names;   /* as qn_binding * */
	qn_names *exports; /* of a function's body: names that its outputs have outside, by its own names; else NULL */
} qn_scope;

qn_scope *qn_scope_new(qn_loader *ld, qn_scope *parent, qn_graph *g);
qn_status qn_scope_bind(qn_loader *ld, qn_scope *s, const char *name, qn_binding b); /* a name bound twice is an error */
/* NULL when the name is not defined. Names of an outer graph are captured. */
const qn_binding *qn_scope_find(qn_loader *ld, qn_scope *s, const char *name);
/* The graph's name for a value that is `name` in the file. */
const char *qn_scope_value_name(qn_loader *ld, qn_scope *s, const char *name);
qn_status qn_scope_value(qn_loader *ld, qn_scope *s, const char *name, qn_value **out);     /* makes and binds */
qn_status qn_scope_const(qn_loader *ld, qn_scope *s, const char *name, const qn_tensor *t); /* makes and binds */
/* The value that a reader gets; `reader` is for messages: "node 'n'", "the graph's output list". *out is NULL where it is absent. */
qn_status qn_scope_read(qn_loader *ld, qn_scope *s, const char *reader, const char *name, qn_value **out);

/* --- attribute.c -------------------------------------------------------------------------------------------------- */
qn_status qn_attrs_build(qn_loader *ld, qn_scope *s, const char *title, const Qn__NodeProto *p, qn_attr **attrs, int *n);
/* What a function's body means by an attribute: itself, or the attribute of the call that it refers to; NULL where the call has none. */
qn_status qn_attr_resolve(qn_loader *ld, const qn_scope *s, const char *title, const Qn__AttributeProto *a, const Qn__AttributeProto **out);
qn_status qn_attr_kind_of(qn_loader *ld, const char *title, const Qn__AttributeProto *a, Qn__AttributeProto__AttributeType *out);
/* A Constant node becomes a constant of the graph. */
qn_status qn_constant_node(qn_loader *ld, qn_scope *s, const Qn__NodeProto *p);

/* --- inputs.c, body.c, call.c -------------------------------------------------------------------------------------- */
qn_status qn_inputs_build(qn_loader *ld, qn_scope *s, const Qn__GraphProto *p);
qn_status qn_graph_build(qn_loader *ld, qn_scope *s, const Qn__GraphProto *p); /* fills s->g */
qn_status qn_nodes_build(qn_loader *ld, qn_scope *s, Qn__NodeProto *const *nodes, size_t n);
qn_status qn_call_inline(qn_loader *ld, qn_scope *s, const Qn__NodeProto *p, const Qn__FunctionProto *f);
qn_status qn_nesting_enter(qn_loader *ld, const char *title); /* ld->nesting-- on the way out */

#endif
