/* exec_run.c - a whole graph: values live in slots, each in an arena of its own that is released after the last use. */
#include "graph/exec.h"
#include "graph/exec_symbols.h"

/* --- constants -------------------------------------------------------------------------------------------------- */
typedef struct loaded {
	const qn_tensor *t;
	qn_arena arena; /* of what loading made; unused for resident data */
} loaded;

struct qn_consts {
	qn_graph *g;
	loaded *of; /* by value id */
};

static void release_consts(void *arg)
{
	qn_consts *c = arg;
	for (size_t i = 0; i < c->g->n_values; i++)
		if (c->of[i].arena.ctx)
			qn_arena_release(&c->of[i].arena);
}

qn_consts *qn_consts_new(qn_graph *g, qn_arena *a)
{
	qn_consts *c = QN_NEW(a, qn_consts, 1);
	*c = (qn_consts){g, QN_NEW(a, loaded, g->n_values)};
	qn_arena_defer(a, release_consts, c);
	return c;
}

qn_status qn_consts_get(qn_consts *c, qn_value *v, const qn_tensor **out)
{
	loaded *l = &c->of[v->id];
	if (!l->t) {
		if (!l->arena.ctx)
			qn_arena_init(&l->arena, c->g->ctx);
		const qn_tensor *t;
		QN_TRY(qn_graph_load(c->g, v, &l->arena, &t));
		l->t = qn_tensor_aligned(&l->arena, t);
	}
	*out = l->t;
	return QUERN_OK;
}

void qn_consts_forget(qn_consts *c, const qn_value *v)
{
	if (c->of[v->id].arena.ctx)
		qn_arena_release(&c->of[v->id].arena);
	c->of[v->id].t = NULL;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */
typedef struct slot {
	qn_tensor t;
	const qn_tensor *instead; /* an override */
	bool known, held;
	size_t uses_left;
	qn_arena arena;
} slot;

struct qn_exec {
	qn_graph *g;
	qn_consts *consts;
	slot *slots;      /* by value id */
	qn_arena run;     /* what lives as long as the run */
	qn_arena scratch; /* reset after each node */
	const qn_sizes *sizes;
	size_t live;
};

static void drop(qn_exec *e, slot *s)
{
	if (s->arena.ctx) {
		e->live -= s->known ? qn_tensor_bytes(&s->t) : 0;
		qn_arena_release(&s->arena);
	}
	s->known = false;
}

static void release_exec(void *arg)
{
	qn_exec *e = arg;
	for (size_t i = 0; i < e->g->n_values; i++)
		drop(e, &e->slots[i]);
	qn_arena_release(&e->scratch);
	qn_arena_release(&e->run);
}

qn_exec *qn_exec_new(qn_consts *consts, qn_arena *a)
{
	qn_exec *e = QN_NEW(a, qn_exec, 1);
	*e = (qn_exec){.g = consts->g, .consts = consts, .slots = QN_NEW(a, slot, consts->g->n_values)};
	qn_arena_init(&e->run, e->g->ctx);
	qn_arena_init(&e->scratch, e->g->ctx);
	qn_arena_defer(a, release_exec, e);
	return e;
}

qn_status qn_exec_begin(qn_exec *e, const qn_tensor *const *inputs)
{
	for (size_t i = 0; i < e->g->n_values; i++) {
		drop(e, &e->slots[i]);
		e->slots[i].uses_left = e->g->values[i] ? e->g->values[i]->n_uses : 0;
	}
	qn_arena_release(&e->run);
	qn_sizes *sizes;
	QN_TRY(qn_sizes_from_inputs(e->g, inputs, &e->run, &sizes));
	e->sizes = sizes;
	for (int i = 0; i < e->g->n_inputs; i++) {
		slot *s = &e->slots[e->g->inputs[i]->id];
		s->t = *inputs[i];
		s->known = true;
	}
	return QUERN_OK;
}

static qn_status operand(qn_exec *e, qn_value *v, const qn_tensor **out)
{
	slot *s = &e->slots[v->id];
	if (s->instead) {
		*out = s->instead;
		return QUERN_OK;
	}
	if (!s->known && v->is_const) {
		QN_TRY(qn_consts_get(e->consts, v, out));
		if ((*out)->type != QN_DIM)
			return QUERN_OK;
		QN_TRY(qn_sizes_apply(e->g, e->sizes, *out, v->fact.type, &e->run, out));
		s->t = **out;
		s->known = true;
	}
	if (!s->known)
		QN_FAIL(e->g->ctx, QUERN_ERR_INTERNAL, "value '%s' is used before it is computed", v->name);
	*out = &s->t;
	return QUERN_OK;
}

const qn_tensor *qn_exec_value(qn_exec *e, qn_value *v)
{
	const qn_tensor *t;
	if (!e->slots[v->id].known && !e->slots[v->id].instead && !v->is_const)
		return NULL;
	return operand(e, v, &t) == QUERN_OK ? t : NULL;
}

void qn_exec_hold(qn_exec *e, const qn_value *v) { e->slots[v->id].held = true; }
void qn_exec_override(qn_exec *e, const qn_value *v, const qn_tensor *t) { e->slots[v->id].instead = t; }
qn_graph *qn_exec_graph(const qn_exec *e) { return e->g; }
size_t qn_exec_live_bytes(const qn_exec *e) { return e->live; }

static void done_with(qn_exec *e, const qn_node *n)
{
	for (int i = 0; i < n->n_in; i++) {
		slot *s = n->in[i] ? &e->slots[n->in[i]->id] : NULL;
		if (s && s->uses_left && --s->uses_left == 0 && s->arena.ctx && !s->held && !n->in[i]->is_output)
			drop(e, s);
	}
}

qn_status qn_exec_step(qn_exec *e, qn_node *n)
{
	qn_arena *a = &e->scratch;
	const qn_tensor **x = QN_NEW(a, const qn_tensor *, n->n_in + 1);
	qn_tensor *y = QN_NEW(a, qn_tensor, n->n_out + 1);
	qn_arena **out = QN_NEW(a, qn_arena *, n->n_out + 1);
	for (int i = 0; i < n->n_in; i++)
		if (n->in[i])
			QN_TRY(operand(e, n->in[i], &x[i]));
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i]) {
			slot *s = &e->slots[n->out[i]->id];
			drop(e, s);
			qn_arena_init(&s->arena, e->g->ctx);
			out[i] = &s->arena;
		}
	QN_TRY(qn_exec_node_into(e->g->ctx, e->g->dims, n, x, a, out, y, NULL));
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i]) {
			slot *s = &e->slots[n->out[i]->id];
			s->t = y[i];
			s->known = true;
			e->live += qn_tensor_bytes(&y[i]);
		}
	return QUERN_OK;
}

void qn_exec_fork(qn_exec *e, const qn_exec *from)
{
	for (size_t i = 0; i < e->g->n_values; i++) {
		slot *s = &e->slots[i];
		const slot *f = &from->slots[i];
		drop(e, s);
		*s = (slot){.t = f->t, .known = f->known, .held = s->held, .instead = s->instead, .uses_left = f->uses_left};
	}
	e->live = 0;
	e->sizes = from->sizes;
}

void qn_exec_give(qn_exec *e, const qn_node *n, const qn_tensor *y)
{
	for (int i = 0; i < n->n_out; i++) {
		if (!n->out[i])
			continue;
		slot *s = &e->slots[n->out[i]->id];
		drop(e, s);
		qn_arena_init(&s->arena, e->g->ctx);
		s->t = y[i];
		size_t bytes = qn_tensor_bytes(&y[i]);
		void *copy = qn_arena_alloc(&s->arena, bytes ? bytes : 1);
		if (bytes)
			memcpy(copy, y[i].data, bytes);
		s->t.data = copy;
		s->known = true;
		e->live += bytes;
	}
}

bool qn_exec_needs(const qn_node *n)
{
	for (int i = 0; i < n->n_out; i++)
		if (n->out[i] && !n->out[i]->is_const)
			return true;
	return false;
}

static qn_status observe_node(qn_exec *e, const qn_node *n, qn_observe_fn observe, void *user)
{
	for (int i = 0; observe && i < n->n_out; i++)
		if (n->out[i])
			QN_TRY(observe(user, n->out[i], &e->slots[n->out[i]->id].t));
	return QUERN_OK;
}

qn_status qn_exec_all(qn_exec *e, const qn_tensor *const *inputs, qn_arena *a, qn_tensor *outputs, qn_observe_fn observe, void *user)
{
	qn_graph *g = e->g;
	QN_TRY(qn_exec_begin(e, inputs));
	for (int i = 0; observe && i < g->n_inputs; i++)
		QN_TRY(observe(user, g->inputs[i], inputs[i]));
	for (qn_node *n = g->first; n; n = n->next) {
		if (!qn_exec_needs(n))
			continue;
		QN_TRY(qn_exec_step(e, n));
		QN_TRY(observe_node(e, n, observe, user));
		qn_exec_finish(e, n);
	}
	for (int i = 0; i < g->n_outputs; i++) {
		const qn_tensor *t;
		QN_TRY(operand(e, g->outputs[i], &t));
		outputs[i] = *t;
		size_t bytes = qn_tensor_bytes(t);
		void *copy = qn_arena_alloc(a, bytes ? bytes : 1);
		if (bytes)
			memcpy(copy, t->data, bytes);
		outputs[i].data = copy;
	}
	return QUERN_OK;
}

void qn_exec_finish(qn_exec *e, const qn_node *n)
{
	done_with(e, n);
	for (int i = 0; i < n->n_out; i++) {
		slot *s = n->out[i] ? &e->slots[n->out[i]->id] : NULL;
		if (s && !n->out[i]->n_uses && !n->out[i]->is_output && !s->held)
			drop(e, s);
	}
	qn_arena_release(&e->scratch);
}

static void release_arena(void *arg) { qn_arena_release(arg); }

qn_status qn_exec_run(qn_ctx *ctx, qn_graph *g, const qn_tensor *const *inputs, qn_arena *a, qn_tensor *outputs, qn_observe_fn observe, void *user)
{
	qn_arena *own = QN_NEW(a, qn_arena, 1);
	qn_arena_init(own, ctx);
	qn_arena_defer(a, release_arena, own);
	qn_exec *e = qn_exec_new(qn_consts_new(g, own), own);
	qn_status status = qn_exec_all(e, inputs, a, outputs, observe, user);
	qn_arena_release(own);
	return status;
}
