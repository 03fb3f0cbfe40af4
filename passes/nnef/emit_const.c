/* emit_const.c - known values in expressions: literals where the engine takes them, else variables, each stored once. */
#include "passes/nnef/emitter.h"

#include <inttypes.h>
#include <math.h>

enum { LONGEST_LIST = 16, SAMPLE = 2048, LARGEST_KEPT = 1 << 20 };

/* --- literals -------------------------------------------------------------------------------------------------- */
static const char *float_text(qn_emitter *em, float f) { return qn_emit_float(&em->base, f); }

static const char *item_text(qn_emitter *em, const qn_tensor *t, int64_t i)
{
	if (t->type == QN_DIM)
		return qn_emit_dim(&em->base, ((const qn_dim *)t->data)[i]);
	if (t->type == QN_BOOL)
		return ((const uint8_t *)t->data)[i] ? "true" : "false";
	if (qn_dtype_is_int(t->type))
		return qn_arena_printf(em->base.arena, "%" PRId64, qn_tensor_get_i64(t, i));
	return float_text(em, (float)qn_tensor_get(t, i));
}

static void nest(qn_emitter *em, qn_text *out, const qn_tensor *t, int axis, int64_t *at)
{
	if (axis == t->rank) {
		qn_text_add(out, "%s", item_text(em, t, (*at)++));
		return;
	}
	qn_text_add(out, "[");
	for (int64_t i = 0; i < t->dim[axis]; i++) {
		qn_text_add(out, i ? ", " : "");
		nest(em, out, t, axis + 1, at);
	}
	qn_text_add(out, "]");
}

const char *qn_emit_nested(qn_emitter *em, const qn_tensor *t, int rank)
{
	qn_text out = {.arena = em->base.arena};
	int64_t at = 0;
	for (int i = t->rank; i < rank; i++)
		qn_text_add(&out, "[");
	nest(em, &out, t, 0, &at);
	for (int i = t->rank; i < rank; i++)
		qn_text_add(&out, "]");
	return out.s;
}

/* Integers in lists pass through 32 bits in the engine; a lone one does not. */
static bool fits_list(const qn_tensor *t, int rank)
{
	int64_t n = qn_tensor_count(t);
	for (int64_t i = 0; i < n && rank > 0; i++)
		if (qn_tensor_get_i64(t, i) != (int32_t)qn_tensor_get_i64(t, i))
			return false;
	return t->type != QN_U64 || (n == 1 && qn_tensor_get_i64(t, 0) >= 0);
}

/* The literal for a small constant, or NULL where a variable is needed. */
static const char *literal(qn_emitter *em, const qn_tensor *t, int rank, bool plain)
{
	int64_t n = qn_tensor_count(t);
	if (n < 1 || n > (qn_dtype_is_int(t->type) && t->rank < 2 ? LONGEST_LIST : 1))
		return NULL;
	const qn_tensor lone = {.type = t->type, .data = t->data};
	if (plain && n == 1) { /* rank 0 goes with every rank */
		t = &lone;
		rank = 0;
	}
	if (t->type == QN_BOOL)
		return rank == 0 ? item_text(em, t, 0) : NULL;
	if (qn_dtype_is_int(t->type) && fits_list(t, rank))
		return qn_arena_printf(em->base.arena, "tract_core_cast(%s, to='%s')", qn_emit_nested(em, t, rank), qn_emit_dtype(t->type));
	if (!qn_dtype_is_float(t->type) || t->type == QN_BF16 || isnan(qn_tensor_get(t, 0)))
		return NULL;
	double v = qn_tensor_get(t, 0);
	if (t->type == QN_F32)
		return rank == 0 ? float_text(em, (float)v) : NULL;
	if ((double)(float)v != v)
		return NULL;
	return qn_arena_printf(em->base.arena, "tract_core_cast(%s, to='%s')", qn_emit_nested(em, t, rank), qn_emit_dtype(t->type));
}

/* --- variables ------------------------------------------------------------------------------------------------- */
static int leading_units(int rank, const int64_t *dim)
{
	int n = 0;
	while (n < rank && dim[n] == 1)
		n++;
	return n;
}

/* Type, dims without units in front, and a hash of the content's beginning, middle and end. */
static const char *stored_key(qn_emitter *em, const qn_tensor *t)
{
	size_t bytes = qn_tensor_bytes(t), part = bytes < SAMPLE ? bytes : SAMPLE;
	const uint8_t *p = t->data;
	uint64_t h = 0;
	if (bytes) {
		h = qn_hash_bytes(p, part, 0);
		h = qn_hash_bytes(p + (bytes - part) / 2, part, h);
		h = qn_hash_bytes(p + (bytes - part), part, h);
	}
	qn_text key = {.arena = em->base.arena};
	qn_text_add(&key, "%s %016" PRIx64, qn_dtype_name(t->type), h);
	for (int i = leading_units(t->rank, t->dim); i < t->rank; i++)
		qn_text_add(&key, " %" PRId64, t->dim[i]);
	return key.s;
}

/* The stored variable with the same content, or NULL. Former content is loaded again, not held. */
static qn_status find_stored(qn_emitter *em, const char *key, const qn_tensor *t, qn_stored **out)
{
	*out = NULL;
	for (qn_stored *s = qn_names_get(em->stored, key); s && !*out; s = s->next) {
		const qn_tensor *u = s->kept;
		if (!u)
			QN_TRY(qn_graph_load(em->base.graph, s->value, &em->other, &u));
		size_t bytes = qn_tensor_bytes(t);
		if (u->data == t->data || bytes == 0 || !memcmp(u->data, t->data, bytes))
			*out = s;
		qn_arena_release(&em->other);
	}
	return QUERN_OK;
}

static const char *nnef_type(qn_dtype t) { return t == QN_BOOL ? "logical" : qn_dtype_is_int(t) ? "integer" : "scalar"; }

/* Writes the file and declares the variable, with `rank` - t->rank unit axes in front. */
static qn_status store(qn_emitter *em, const char *name, const char *key, const qn_tensor *t, int rank, qn_value *v, qn_stored **out)
{
	qn_tensor shaped = *t;
	int units = rank - t->rank;
	shaped.rank = rank;
	for (int i = 0; i < rank; i++)
		shaped.dim[i] = i < units ? 1 : t->dim[i - units];
	const char *label = qn_emit_label(em, name);
	if (em->ar)
		QN_TRY(qn_archive_add_tensor(em->ar, label, &shaped));
	em->bytes += qn_tensor_bytes(t);
	qn_stored *s = QN_NEW(em->arena, qn_stored, 1);
	*s = (qn_stored){.next = qn_names_get(em->stored, key), .id = qn_emit_identifier(em, label), .value = v, .rank = rank};
	size_t bytes = qn_tensor_bytes(t);
	if (!v && bytes <= LARGEST_KEPT) {
		qn_tensor *copy = qn_tensor_new(em->arena, t->type, t->rank, t->dim);
		if (bytes)
			memcpy((void *)(uintptr_t)copy->data, t->data, bytes);
		s->kept = copy;
	}
	if (v || s->kept) /* a large one of our own making cannot be had again to compare with */
		qn_names_put(em->stored, qn_arena_strdup(em->arena, key), s);
	qn_text_add(&em->variables, "    %s = variable<%s>(shape=%s, label='%s');\n", s->id, nnef_type(t->type),
		qn_emit_ints(&em->base, shaped.dim, rank), label);
	*out = s;
	return QUERN_OK;
}

/* The variable at another rank. */
static const char *at_rank(qn_emitter *em, const qn_stored *s, int rank)
{
	int n = rank > s->rank ? rank - s->rank : s->rank - rank;
	if (n == 0)
		return s->id;
	int64_t axes[QN_MAX_RANK];
	for (int i = 0; i < n; i++)
		axes[i] = i;
	const char *op = rank > s->rank ? "unsqueeze" : "squeeze";
	return qn_arena_printf(em->base.arena, "%s(%s, axes=%s)", op, s->id, qn_emit_ints(&em->base, axes, n));
}

static qn_status constant(qn_emitter *em, const char *name, const qn_tensor *t, int rank, bool plain, qn_value *v, const char **out)
{
	if (qn_dtype_is_small_float(t->type))
		v = NULL; /* its bytes are not those that are stored */
	t = qn_tensor_plain(&em->weight, t);
	*out = literal(em, t, rank, plain);
	if (*out)
		return QUERN_OK;
	const char *key = stored_key(em, t);
	qn_stored *s;
	QN_TRY(find_stored(em, key, t, &s));
	if (!s)
		QN_TRY(store(em, name, key, t, rank, v, &s));
	*out = at_rank(em, s, rank);
	return QUERN_OK;
}

/* --- values ----------------------------------------------------------------------------------------------------- */
/* Dims that all turn out to be numbers are plain integers. */
static const qn_tensor *settle_dims(qn_emitter *em, const qn_tensor *t)
{
	int64_t n = qn_tensor_count(t);
	const qn_dim *d = t->data;
	for (int64_t i = 0; i < n; i++)
		if (!qn_dim_is_const(d[i]))
			return t;
	qn_tensor *ints = qn_tensor_new(em->base.arena, QN_I64, t->rank, t->dim);
	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)ints->data)[i] = d[i].k;
	return ints;
}

static qn_status known_ref(qn_emitter *em, qn_value *v, int rank, bool plain, const char **out)
{
	const qn_tensor *t;
	QN_TRY(qn_graph_load(em->base.graph, v, &em->weight, &t));
	qn_dtype type = v->fact.type;
	if (t->rank > rank)
		QN_FAIL(em->base.ctx, QUERN_ERR_INTERNAL, "it has rank %d where %d is known", t->rank, v->fact.shape.rank);
	if (t->type == QN_DIM)
		t = settle_dims(em, t);
	if (t->type == QN_DIM) {
		*out = qn_arena_printf(em->base.arena, "tract_core_cast(%s, to='%s')", qn_emit_nested(em, t, rank), qn_emit_dtype(type));
		return QUERN_OK;
	}
	if (t->type != type && (qn_dtype_is_int(t->type) || qn_dtype_is_float(t->type)) && qn_dtype_size(type)) {
		qn_tensor *as = qn_tensor_new(&em->weight, type, t->rank, t->dim);
		qn_convert(t->data, t->type, (void *)(uintptr_t)as->data, type, qn_tensor_count(t));
		return constant(em, v->weight ? v->weight : v->name, as, rank, plain, NULL, out);
	}
	return constant(em, v->weight ? v->weight : v->name, qn_tensor_aligned(&em->weight, t), rank, plain, v, out);
}

static bool has_one_item(const qn_shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (!qn_dim_is(s->dim[i], 1))
			return false;
	return true;
}

const char *qn_emit_known_ref(qn_emitter *em, qn_value *v, int rank, bool plain)
{
	if (rank < 0 || rank > QN_MAX_RANK)
		return qn_emitter_fail(em, qn_emit_fail(&em->base, "constant '%s' has no rank", v->name));
	const char **cached = &em->values[v->id].ranked[rank];
	plain &= has_one_item(&v->fact.shape);
	if (*cached && !plain)
		return *cached;
	const char *expr = "";
	qn_status st = known_ref(em, v, rank, plain, &expr);
	qn_arena_release(&em->weight);
	qn_arena_release(&em->other);
	if (st != QUERN_OK) {
		qn_prefix(em->base.ctx, st, "constant '%s'", v->name);
		return qn_emitter_fail(em, st);
	}
	if (!plain)
		*cached = qn_arena_strdup(em->arena, expr);
	return expr;
}

const char *qn_emit_constant(qn_emit *e, const char *label, const qn_tensor *t)
{
	qn_emitter *em = e->emitter;
	const char *name = qn_arena_printf(e->arena, "%s.%s", e->node->name, label), *expr = "";
	qn_status st = constant(em, name, t, t->rank, false, NULL, &expr);
	qn_arena_release(&em->other);
	if (st == QUERN_OK)
		return expr;
	qn_prefix(e->ctx, st, "node '%s' (%s)", e->node->name, e->node->op_type);
	return qn_emitter_fail(em, st);
}
