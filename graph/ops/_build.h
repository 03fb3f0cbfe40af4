/* _build.h - short forms for writing a lowering: primitive operators put in front of the node that they replace.
 *
 * New values get names "<node>/<label>". They have no facts before the shapes walk reaches them, so what a lowering needs to know of them
 * it must derive from the facts of the node's inputs. Reshape targets may use 0 (same position) and -1 as in ONNX. */
#ifndef QN_OPS_BUILD_H
#define QN_OPS_BUILD_H

#include "graph/op.h"

typedef struct qn_build {
	qn_graph *g;
	qn_node *n; /* the node that is lowered: new nodes go before it, messages name it */
} qn_build;

/* "node 'x' (Op): ..." with the status given. */
qn_status qn_build_fail(const qn_build *b, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);

/* A note for the log about this kind of operator: given once a graph, at the last node of the kind. */
void qn_build_note(const qn_build *b, const char *text);

/* What a lowering has no way to express. For an attribute, any number but `allowed`; for inputs and outputs, being there. */
typedef struct qn_limit {
	enum { QN_LIMIT_ATTR, QN_LIMIT_INPUT, QN_LIMIT_OUTPUT } kind;
	const char *name;
	int index;      /* of inputs and outputs */
	double allowed; /* of attributes: the value that is the same as absence */
} qn_limit;
/* Fails with QUERN_ERR_UNSUPPORTED when any of the limits is crossed; the message lists every one of them. */
qn_status qn_build_refuse(const qn_build *b, const qn_limit *limits, size_t n);

/* Input i or NULL. */
static inline qn_value *qn_build_in(const qn_build *b, int i)
{
	return qn_node_has_in(b->n, i) ? b->n->in[i] : NULL;
}
/* True when output i is read by a node or by the caller. */
bool qn_build_wants(const qn_build *b, int i);
/* Whoever reads output i reads `v` from now on. */
void qn_build_give(const qn_build *b, int i, qn_value *v);
/* Fails unless input i is there with a rank in [low, high]. */
qn_status qn_build_rank(const qn_build *b, int i, const char *what, int low, int high);
/* Fails where one of the first `n` inputs is absent, which the arity of a row does not see. */
qn_status qn_build_need(const qn_build *b, int n);
/* An integer attribute that must lie in [low, high]. */
qn_status qn_build_attr(const qn_build *b, const char *name, int64_t otherwise, int64_t low, int64_t high, int64_t *out);
/* Sizes and counts of a sane model stay below this, so that sums and small multiples of them cannot overflow. */
#define QN_BUILD_MOST ((int64_t)1 << 40)
/* A dim that must be known; `what` names it in the message. */
qn_status qn_build_known(const qn_build *b, qn_dim d, const char *what, int64_t *out);

/* --- constants ------------------------------------------------------------------------------------------ */
qn_value *qn_build_ints(const qn_build *b, const char *label, const int64_t *v, int n);
qn_value *qn_build_dims(const qn_build *b, const char *label, const qn_dim *v, int n);    /* rank 1, i64 */
qn_value *qn_build_dim(const qn_build *b, const char *label, qn_dim v);                   /* rank 0, i64 */
qn_value *qn_build_number(const qn_build *b, const char *label, qn_dtype type, double v); /* rank 0 */

/* --- operators ------------------------------------------------------------------------------------------- */
qn_value *qn_build_op1(const qn_build *b, const char *op, const char *label, qn_value *x);
qn_value *qn_build_op2(const qn_build *b, const char *op, const char *label, qn_value *x, qn_value *y);
qn_value *qn_build_op3(const qn_build *b, const char *op, const char *label, qn_value *x, qn_value *y, qn_value *z);
/* op(x, number) with a scalar constant of the given type. */
qn_value *qn_build_with(const qn_build *b, const char *op, const char *label, qn_value *x, qn_dtype type, double v);
qn_value *qn_build_reshape(const qn_build *b, const char *label, qn_value *x, const int64_t *dim, int rank);
qn_value *qn_build_transpose(const qn_build *b, const char *label, qn_value *x, const int64_t *perm, int rank);
qn_value *qn_build_unsqueeze(const qn_build *b, const char *label, qn_value *x, int64_t axis);
qn_value *qn_build_squeeze(const qn_build *b, const char *label, qn_value *x, int64_t axis);
/* x[start:end] along one axis; the axis may be negative, the ends count from the front. */
qn_value *qn_build_slice(const qn_build *b, const char *label, qn_value *x, int64_t axis, qn_dim start, qn_dim end);
qn_value *qn_build_concat(const qn_build *b, const char *label, int64_t axis, qn_value *x, qn_value *y);
void qn_build_split(const qn_build *b, const char *label, qn_value *x, int64_t axis, const int64_t *sizes, int n, qn_value **out);
qn_value *qn_build_cast(const qn_build *b, const char *label, qn_value *x, qn_dtype to);
qn_value *qn_build_softmax(const qn_build *b, const char *label, qn_value *x);            /* over the last axis */
qn_value *qn_build_range(const qn_build *b, const char *label, qn_dim start, qn_dim end); /* i64, rank 1 */
/* A tensor of that shape full of one number. */
qn_value *qn_build_full(const qn_build *b, const char *label, qn_dtype type, double v, const qn_dim *dim, int rank);
/* LayerNormalization (beta may be NULL) or, with rms, RMSNormalization over the last axis. */
qn_value *qn_build_norm(const qn_build *b, const char *label, qn_value *x, qn_value *gamma, qn_value *beta, bool rms, float epsilon);
/* An activation of ONNX Runtime's fused operators by its name, with the alpha, beta and gamma of the node's activation_* attributes. */
qn_status qn_build_activation(const qn_build *b, qn_value *x, qn_value **out);

#endif
