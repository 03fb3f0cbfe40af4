/* tag_attention.c - an attention is a softmax between two products of activations: scores = query x key before it, result =
 * probabilities x value after it. The layers behind the operands are query, key and value; the layer that reads the result is output. */
#include "passes/tag.h"

/* How a value depends on layers: through anything but products, softmaxes, selections and angles of positions. */
typedef struct back_walk {
	qn_tagger *t;
	uint8_t *seen; /* by value id; 1: reached before a norm was crossed, 2: after */
	qn_nodes layers;
	qn_nodes products;      /* contractions of two activations */
	uint64_t swapped;       /* bit i: product i is transposed on its way here, so that its operands change places */
} back_walk;

/* Exchanges the last two axes? */
static bool swaps_axes(const qn_node *n)
{
	const qn_attr *perm = (n->op->traits & QN_LAYOUT) ? qn_node_attr(n, "perm") : NULL;
	return perm && perm->n >= 2 && perm->ints[perm->n - 1] == (int64_t)perm->n - 2 && perm->ints[perm->n - 2] == (int64_t)perm->n - 1;
}

/* Of two activations, of which one may be the same for all inputs: learned queries. */
static bool is_product(const qn_tagger *t, const qn_node *n)
{
	if (n->op->hint != QN_HINT_CONTRACTION || n->n_in < 2 || !n->in[0] || !n->in[1])
		return false;
	return n->in[0]->is_const == n->in[1]->is_const ? !n->in[0]->is_const : !qn_tag_layer(t, n);
}

static void walk_back(back_walk *w, qn_value *v, bool crossed_norm, bool swapped)
{
	uint8_t mark = crossed_norm ? 2 : 1;
	if (!v || v->is_const || (w->seen[v->id] & mark))
		return;
	w->seen[v->id] |= mark;
	qn_node *n = v->producer;
	if (!n)
		return;
	if (qn_tag_layer(w->t, n)) {
		qn_nodes_add(&w->layers, w->t->a, n);
		return;
	}
	if (is_product(w->t, n)) {
		qn_nodes_add(&w->products, w->t->a, n);
		if (swapped && w->products.v[w->products.n - 1] == n && w->products.n <= 64)
			w->swapped |= (uint64_t)1 << (w->products.n - 1);
		return;
	}
	switch (n->op->hint) {
	case QN_HINT_CONTRACTION:
	case QN_HINT_SOFTMAX:
	case QN_HINT_SELECTION:
	case QN_HINT_POSITION:
		return;
	case QN_HINT_NORM:
		walk_back(w, n->in[0], true, swapped);
		return;
	case QN_HINT_NONE:
		break;
	}
	if (qn_tag_is_table(w->t, n))
		return;
	if (crossed_norm && qn_tag_is_sum(n)) /* the stream between blocks, not a projection */
		return;
	for (int i = 0; i < n->n_in; i++)
		walk_back(w, n->in[i], crossed_norm, swapped != swaps_axes(n));
}

static back_walk back_from(qn_tagger *t, qn_value *v)
{
	back_walk w = {.t = t, .seen = QN_NEW(t->a, uint8_t, t->g->n_values)};
	walk_back(&w, v, false, false);
	return w;
}

/* The products that read the probabilities of a softmax, each with the operand that carries them. */
typedef struct mix {
	qn_node *node;
	int probabilities;
} mix;

typedef struct mixes {
	mix v[32];
	int n;
} mixes;

static void find_mixes(qn_tagger *t, qn_value *v, uint8_t *seen, mixes *out)
{
	if (seen[v->id])
		return;
	seen[v->id] = 1;
	for (size_t i = 0; i < v->n_uses; i++) {
		qn_node *n = v->uses[i].node;
		if (is_product(t, n)) {
			if (out->n < (int)QN_LEN(out->v))
				out->v[out->n++] = (mix){n, v->uses[i].input};
			continue;
		}
		if (n->op->hint != QN_HINT_NONE)
			continue;
		for (int k = 0; k < n->n_out; k++)
			if (n->out[k])
				find_mixes(t, n->out[k], seen, out);
	}
}

/* Layers that read the result of an attention, the heads merged; sums with other activations are the stream, not the result. */
static void find_readers(qn_tagger *t, qn_value *v, uint8_t *seen, qn_nodes *out)
{
	if (seen[v->id])
		return;
	seen[v->id] = 1;
	for (size_t i = 0; i < v->n_uses; i++) {
		qn_node *n = v->uses[i].node;
		if (qn_tag_layer(t, n)) {
			if (v->uses[i].input != qn_tag_layer(t, n)->weight_in)
				qn_nodes_add(out, t->a, n);
			continue;
		}
		if ((n->op->hint != QN_HINT_NONE && n->op->hint != QN_HINT_NORM) || qn_tag_is_sum(n))
			continue;
		for (int k = 0; k < n->n_out; k++)
			if (n->out[k])
				find_readers(t, n->out[k], seen, out);
	}
}

/* --- roles of one attention --------------------------------------------------------------------------------- */
static const qn_role role_of_bit[] = {[QN_TAG_Q] = QN_ROLE_QUERY, [QN_TAG_K] = QN_ROLE_KEY, [QN_TAG_V] = QN_ROLE_VALUE};

static void note_layers(qn_tag_members *m, qn_tagger *t, const back_walk *w, uint8_t bit, qn_value *operand)
{
	for (size_t i = 0; i < w->layers.n; i++) {
		qn_layer *l = qn_tag_layer(t, w->layers.v[i]);
		if (l->role != QN_ROLE_NONE)
			continue;
		qn_tag_member *e = qn_tag_member_of(m, l);
		if (!e) {
			QN_GROW(t->a, m->v, m->n, m->cap);
			e = &m->v[m->n++];
			*e = (qn_tag_member){.layer = l};
		}
		e->bits |= bit;
		e->operand[bit == QN_TAG_Q ? 0 : bit == QN_TAG_K ? 1 : 2] = operand;
	}
}

/* Probabilities are [.., queries, keys] where the softmax runs over the last axis; over the one before, the operands of the scores change places. */
static bool scores_are_transposed(const qn_node *softmax)
{
	int rank = softmax->in[0]->fact.shape.rank;
	int64_t axis = qn_node_int(softmax, "axis", -1);
	return (axis < 0 ? axis + rank : axis) == rank - 2 && rank >= 2;
}

/* A layer that serves as several: parts where each takes other channels, else the first of its roles stands. */
static qn_status give_parts(qn_tagger *t, qn_layer *l, qn_value *const operand[3], uint8_t bits)
{
	qn_part parts[3];
	int n = 0;
	bool whole = false;
	for (int b = 0; b < 3; b++) {
		if (!(bits >> b & 1))
			continue;
		if (!operand[b])
			return QUERN_OK;
		qn_part p = {.role = role_of_bit[1 << b]};
		QN_TRY(qn_tag_channels(t, l, operand[b], &p.rows, &p.n));
		whole |= p.n == l->n || p.n < 0;
		parts[n++] = p;
	}
	if (whole)
		return QUERN_OK;
	l->role = QN_ROLE_QKV;
	l->n_parts = n;
	l->parts = QN_NEW(t->plan->arena, qn_part, n);
	for (int i = 0; i < n; i++) {
		l->parts[i] = parts[i];
		l->parts[i].rows = QN_NEW(t->plan->arena, int64_t, parts[i].n);
		memcpy(l->parts[i].rows, parts[i].rows, (size_t)parts[i].n * sizeof(int64_t));
	}
	return QUERN_OK;
}

static void give(qn_layer *l, qn_role role, int block, bool cross)
{
	l->role = role;
	l->block = block;
	l->cross = cross;
}

static qn_status give_roles(qn_tagger *t, qn_tag_members *m, const qn_nodes *readers, int *block)
{
	qn_tag_add_factors(t, m);
	bool cross = qn_tag_is_cross(t, m);
	if (*block < 0 || !cross)
		(*block)++;
	for (size_t i = 0; i < m->n; i++) {
		const qn_tag_member *e = &m->v[i];
		give(e->layer, role_of_bit[e->bits & -e->bits], *block, cross);
		if (e->bits & (e->bits - 1))
			QN_TRY(give_parts(t, e->layer, e->operand, e->bits));
	}
	for (size_t i = 0; i < readers->n; i++)
		if (qn_tag_layer(t, readers->v[i])->role == QN_ROLE_NONE)
			give(qn_tag_layer(t, readers->v[i]), QN_ROLE_OUTPUT, *block, cross);
	return QUERN_OK;
}

static qn_status tag_softmax(qn_tagger *t, qn_node *softmax, int *block)
{
	back_walk scores = back_from(t, softmax->in[0]);
	mixes m = {.n = 0};
	find_mixes(t, softmax->out[0], QN_NEW(t->a, uint8_t, t->g->n_values), &m);
	if (!scores.products.n || !m.n)
		return QUERN_OK;
	qn_tag_members members = {0};
	qn_nodes readers = {0};
	bool swapped = scores_are_transposed(softmax);
	for (size_t i = 0; i < scores.products.n; i++)
		for (int side = 0; side < 2; side++) {
			qn_value *operand = scores.products.v[i]->in[side];
			back_walk w = back_from(t, operand);
			note_layers(&members, t, &w, (side == 0) != (swapped != (bool)(scores.swapped >> i & 1)) ? QN_TAG_Q : QN_TAG_K, operand);
		}
	for (int i = 0; i < m.n; i++) {
		qn_value *operand = m.v[i].node->in[1 - m.v[i].probabilities];
		back_walk w = back_from(t, operand);
		note_layers(&members, t, &w, QN_TAG_V, operand);
		find_readers(t, m.v[i].node->out[0], QN_NEW(t->a, uint8_t, t->g->n_values), &readers);
	}
	if (!members.n)
		return QUERN_OK;
	QN_TRY(give_roles(t, &members, &readers, block));
	qn_tag_note_attention(t, softmax, &scores.products, &members, *block, members.v[0].layer->cross);
	return QUERN_OK;
}

/* Attention without a softmax multiplies in the other order: query x (key x value). n is the outer product with the query on side `side`. */
static qn_status tag_linear(qn_tagger *t, qn_node *n, int side, int *block)
{
	back_walk query = back_from(t, n->in[side]), inner = back_from(t, n->in[1 - side]);
	if (!query.layers.n || query.products.n || inner.layers.n || inner.products.n != 1)
		return QUERN_OK;
	qn_tag_members members = {0};
	note_layers(&members, t, &query, QN_TAG_Q, n->in[side]);
	for (int i = 0; i < 2; i++) {
		qn_value *operand = inner.products.v[0]->in[i];
		back_walk w = back_from(t, operand);
		if (!w.layers.n || w.products.n)
			return QUERN_OK;
		note_layers(&members, t, &w, i == side ? QN_TAG_K : QN_TAG_V, operand);
	}
	if (members.n < 3) /* some have roles already, or one layer serves as several: another kind of product */
		return QUERN_OK;
	qn_nodes readers = {0};
	find_readers(t, n->out[0], QN_NEW(t->a, uint8_t, t->g->n_values), &readers);
	return give_roles(t, &members, &readers, block);
}

qn_status qn_tag_attention(qn_tagger *t)
{
	int block = -1;
	for (qn_node *n = t->g->first; n; n = n->next) {
		if (!n->out[0] || n->out[0]->is_const)
			continue;
		if (n->op->hint == QN_HINT_SOFTMAX)
			QN_TRY(tag_softmax(t, n, &block));
		for (int side = 0; side < 2 && is_product(t, n); side++)
			QN_TRY(tag_linear(t, n, side, &block));
	}
	return QUERN_OK;
}
