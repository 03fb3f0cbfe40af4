/* shapes.c - one walk that lowers fused operators, infers symbolic shapes and folds what is known.
 *
 * needs: a sorted graph with facts on its inputs and constants.
 * gives: type and shape of every value; no node left whose result is known at compile time (shape subgraphs vanish: what they
 *        computed are constants over the symbols); fused operators lowered; symbols that must be equal bound. Constants too
 *        large to keep stay recipes. */
#include "graph/exec.h"
#include "passes/passes.h"

/* Results up to this size are kept; larger constants stay recipes (they are weights, as a rule). */
enum { RESIDENT_BYTES = 64 << 10, MOST_DIMS = 1 << 12, MOST_ROUNDS = 256 };

static bool is_known(const qn_value *v) { return v->is_const || v->fact.value; }

static void forget(qn_node *n)
{
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i]) {
			n->out[i]->fact = (qn_fact){.shape.rank = -1};
			n->out[i]->is_const = false;
		}
}

static void resolve_shape(qn_dims *t, qn_shape *s)
{
	for (int i = 0; i < s->rank; i++)
		s->dim[i] = qn_dim_resolve(t, s->dim[i]);
}

/* Facts that no node gives follow new bindings: inputs, and constants over symbols that lowering made. */
static void resolve_sources(qn_graph *g)
{
	for (size_t k = 0; k < g->n_values; k++) {
		qn_value *v = g->values[k];
		if (!v || v->producer)
			continue;
		resolve_shape(g->dims, &v->fact.shape);
		if (!v->fact.value || v->fact.value->type != QN_DIM)
			continue;
		qn_dim *d = (qn_dim *)(uintptr_t)v->fact.value->data;
		int64_t n = qn_tensor_count(v->fact.value);
		for (int64_t i = 0; i < n; i++)
			d[i] = qn_dim_resolve(g->dims, d[i]);
	}
}

static bool all_const_shape(const qn_fact *f) { return f->shape.rank >= 0 && qn_shape_is_const(&f->shape); }

static int64_t fact_count(const qn_fact *f)
{
	int64_t n = 1;
	for (int i = 0; i < f->shape.rank; i++)
		if (__builtin_mul_overflow(n, f->shape.dim[i].k, &n))
			return INT64_MAX;
	return n;
}

/* Whether all results of the node follow from what is known, and whether any of it is known up to symbols only. */
static bool can_fold(const qn_node *n, bool *symbolic)
{
	if (!n->op->eval || (n->op->traits & (QN_RANDOM | QN_SUBGRAPH)))
		return false;
	*symbolic = false;
	for (int i = 0; i < n->n_in; i++) {
		if (!n->in[i])
			continue;
		if (!is_known(n->in[i]))
			return false;
		*symbolic |= n->in[i]->fact.value && n->in[i]->fact.value->type == QN_DIM;
	}
	return true;
}

static bool worth_keeping(const qn_node *n, bool symbolic)
{
	for (int i = 0; i < n->n_out; i++) {
		if (!n->out[i] || (n->op->traits & QN_DYNAMIC_OUTPUT))
			continue;
		const qn_fact *f = &n->out[i]->fact;
		size_t bytes;
		if (!all_const_shape(f) || !qn_dtype_bytes(f->type, fact_count(f), &bytes))
			return false;
		if (symbolic ? fact_count(f) > MOST_DIMS : bytes > RESIDENT_BYTES)
			return false;
	}
	return true;
}

/* A tensor of dims that are all constants is an ordinary tensor of its fact's type. */
static const qn_tensor *settle(qn_arena *a, const qn_tensor *t, qn_dtype type)
{
	if (t->type != QN_DIM)
		return t;
	int64_t n = qn_tensor_count(t);
	const qn_dim *d = t->data;
	for (int64_t i = 0; i < n; i++)
		if (!qn_dim_is_const(d[i]))
			return t;
	qn_tensor *r = qn_tensor_new(a, type, t->rank, t->dim);
	for (int64_t i = 0; i < n; i++)
		qn_convert(&d[i].k, QN_I64, (char *)(uintptr_t)r->data + (size_t)i * qn_dtype_size(type), type, 1);
	return r;
}

static void keep_result(qn_graph *g, qn_value *v, const qn_tensor *y)
{
	qn_tensor *t = QN_NEW(g->arena, qn_tensor, 1);
	*t = *y;
	size_t bytes = qn_tensor_bytes(y);
	void *data = qn_arena_alloc(g->arena, bytes ? bytes : 1);
	if (bytes)
		memcpy(data, y->data, bytes);
	t->data = data;
	v->fact.value = settle(g->arena, t, v->fact.type);
	v->fact.shape = qn_shape_of(t);
	v->is_const = v->fact.value->type != QN_DIM;
}

/* A constant goes by the name of the initializer that its elements come from: the one that it moves or converts, else the largest that it is
 * computed from, where that has as many elements (a slice, a scaled or a normalized weight). */
static void note_weight(qn_node *n)
{
	if (!n->out[0])
		return;
	if (n->op->traits & QN_KEEPS_WEIGHT) {
		n->out[0]->weight = n->in[0] ? n->in[0]->weight : NULL;
		return;
	}
	const qn_value *largest = NULL;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && n->in[i]->weight && qn_dtype_is_float(n->in[i]->fact.type) && all_const_shape(&n->in[i]->fact) &&
			(!largest || fact_count(&n->in[i]->fact) > fact_count(&largest->fact)))
			largest = n->in[i];
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->fact.type != QN_NONE && qn_dtype_is_float(n->out[i]->fact.type))
			n->out[i]->weight = largest && all_const_shape(&n->out[i]->fact) && fact_count(&n->out[i]->fact) <= fact_count(&largest->fact) ?
				largest->weight : NULL;
}

static qn_status fold(qn_graph *g, qn_node *n)
{
	bool symbolic;
	if (!can_fold(n, &symbolic))
		return QUERN_OK;
	note_weight(n);
	if (!worth_keeping(n, symbolic)) {
		for (int i = 0; i < n->n_out && !symbolic; i++)
			if (n->out[i])
				n->out[i]->is_const = true;
		return QUERN_OK;
	}
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor **x = QN_NEW(&scratch, const qn_tensor *, n->n_in + 1);
	qn_tensor *y = QN_NEW(&scratch, qn_tensor, n->n_out + 1);
	qn_status status = QUERN_OK;
	for (int i = 0; i < n->n_in && status == QUERN_OK; i++)
		if (n->in[i])
			status = qn_graph_load(g, n->in[i], &scratch, &x[i]);
	bool undecided = false;
	if (status == QUERN_OK)
		status = qn_exec_node(g->ctx, g->dims, n, x, &scratch, y, &undecided);
	for (int i = 0; i < n->n_out && status == QUERN_OK && !undecided; i++)
		if (n->out[i])
			keep_result(g, n->out[i], &y[i]);
	qn_arena_release(&scratch);
	return status;
}

/* *known is false when an input has no rank: nothing can be said of the outputs. */
static qn_status infer(qn_graph *g, qn_node *n, bool *known)
{
	qn_fact *in = QN_NEW(g->arena, qn_fact, n->n_in + 1);
	qn_fact *out = QN_NEW(g->arena, qn_fact, n->n_out + 1);
	*known = true;
	for (int i = 0; i < n->n_in; i++) {
		if (!n->in[i])
			continue;
		in[i] = n->in[i]->fact;
		if (in[i].shape.rank < 0 || in[i].type == QN_NONE)
			*known = false;
		resolve_shape(g->dims, &in[i].shape);
	}
	if (!*known || !n->op->infer)
		return QUERN_OK;
	qn_call c = {.ctx = g->ctx, .node = n, .dims = g->dims, .scratch = g->arena, .threads = g->ctx->threads, .in = in, .out = out};
	for (int i = 0; i < n->n_out; i++)
		out[i].shape.rank = -1;
	QN_TRY(qn_call_infer(&c));
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i]) {
			n->out[i]->fact = out[i];
			resolve_shape(g->dims, &n->out[i]->fact.shape);
			if (out[i].value)
				n->out[i]->fact.value = settle(g->arena, out[i].value, out[i].type);
			n->out[i]->is_const = n->out[i]->fact.value && n->out[i]->fact.value->type != QN_DIM;
		}
	return QUERN_OK;
}

static bool has_facts(const qn_node *n)
{
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && (n->in[i]->fact.shape.rank < 0 || n->in[i]->fact.type == QN_NONE))
			return false;
	return true;
}

/* Lowers n when its row can; *next is where the walk goes on. */
static qn_status lower(qn_graph *g, qn_node *n, qn_node **next, bool *done)
{
	*done = false;
	if (!n->op->lower || !has_facts(n))
		return QUERN_OK;
	qn_node *before = n->prev;
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			resolve_shape(g->dims, &n->in[i]->fact.shape);
	QN_TRY(n->op->lower(g, n, done));
	if (!*done)
		return QUERN_OK;
	qn_node *after = n->next;
	qn_node_remove(g, n);
	*next = before ? before->next : g->first;
	if (!*next)
		*next = after;
	return QUERN_OK;
}

static qn_status missing_fact(qn_graph *g, const qn_node *n)
{
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i] && (n->in[i]->fact.shape.rank < 0 || n->in[i]->fact.type == QN_NONE))
			QN_FAIL(g->ctx, QUERN_ERR_SHAPE,
				"node '%s' (%s): the rank of its input '%s' is not known; export the model with declared input shapes", n->name,
				n->op_type, n->in[i]->name);
	return QUERN_OK;
}

static qn_status visit(qn_graph *g, qn_pass_env *env, qn_node *n, qn_node **next)
{
	bool lowered, known;
	*next = n->next;
	QN_TRY(lower(g, n, next, &lowered));
	if (lowered)
		return QUERN_OK;
	forget(n);
	qn_status status = infer(g, n, &known);
	if (status == QUERN_ERR_UNSUPPORTED && env->tolerate_dynamic) {
		forget(n);
		return QUERN_OK;
	}
	QN_TRY(status);
	if (!known || !n->op->infer) {
		if (env->tolerate_dynamic && known)
			return qn_fail(g->ctx, QUERN_ERR_UNSUPPORTED, "node '%s' (%s) could not be lowered", n->name, n->op_type);
		return env->tolerate_dynamic ? QUERN_OK : missing_fact(g, n);
	}
	return fold(g, n);
}

/* Everything known stands for itself: its producers are no longer needed. */
static void detach_known(qn_graph *g)
{
	for (size_t i = 0; i < g->n_values; i++) {
		qn_value *v = g->values[i];
		if (v && v->producer && v->fact.value)
			qn_value_make_const(g, v, v->fact.value);
	}
}

qn_status qn_pass_shapes(qn_graph *g, qn_pass_env *env)
{
	unsigned generation;
	int rounds = 0;
	do {
		generation = qn_dims_generation(g->dims);
		resolve_sources(g);
		for (qn_node *n = g->first, *next; n; n = next)
			QN_TRY(visit(g, env, n, &next));
		if (++rounds > MOST_ROUNDS)
			QN_FAIL(g->ctx, QUERN_ERR_SHAPE, "symbolic dims do not settle after %d rounds", rounds);
	} while (generation != qn_dims_generation(g->dims));
	detach_known(g);
	qn_graph_sweep(g);
	return QUERN_OK;
}
