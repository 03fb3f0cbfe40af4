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

static bool is_product(const qn_node *n)
{
	return n->op->hint == QN_HINT_CONTRACTION && n->n_in >= 2 && n->in[0] && n->in[1] && !n->in[0]->is_const && !n->in[1]->is_const;
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
	if (is_product(n)) {
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
	if (w->t->of_node[n->id] && n->op->weight_input) /* an embedding */
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
		if (is_product(n)) {
			if (out->n < (int)QN_LEN(out->v))
				out->v[out->n++] = (mix){n, v->uses[i].input};
			continue;
		}
		if (n->op->hint != QN_HINT_NONE || t->of_node[n->id])
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
enum { Q = 1, K = 2, V = 4 };
static const qn_role role_of_bit[] = {[Q] = QN_ROLE_QUERY, [K] = QN_ROLE_KEY, [V] = QN_ROLE_VALUE};

typedef struct attention {
	qn_nodes layers;
	uint8_t bits[64];
	qn_value *operand[64][3]; /* where the layer is reached from, by bit order */
} attention;

static void note_layers(attention *at, qn_tagger *t, const back_walk *w, int bit, qn_value *operand)
{
	for (size_t i = 0; i < w->layers.n; i++) {
		qn_layer *l = qn_tag_layer(t, w->layers.v[i]);
		if (l->role != QN_ROLE_NONE || (at->layers.n >= QN_LEN(at->bits) && !qn_nodes_has(&at->layers, w->layers.v[i])))
			continue;
		qn_nodes_add(&at->layers, t->a, w->layers.v[i]);
		for (size_t k = 0; k < at->layers.n; k++)
			if (at->layers.v[k] == w->layers.v[i]) {
				at->bits[k] |= (uint8_t)bit;
				at->operand[k][bit == Q ? 0 : bit == K ? 1 : 2] = operand;
			}
	}
}

/* Probabilities are [.., queries, keys] where the softmax runs over the last axis; over the one before, the operands of the scores change places. */
static bool scores_are_transposed(const qn_node *softmax)
{
	int rank = softmax->in[0]->fact.shape.rank;
	int64_t axis = qn_node_int(softmax, "axis", -1);
	return (axis < 0 ? axis + rank : axis) == rank - 2 && rank >= 2;
}

static qn_status give_parts(qn_tagger *t, qn_layer *l, qn_value *const operand[3], uint8_t bits)
{
	qn_part parts[3];
	int n = 0;
	bool whole = false;
	for (int b = 0; b < 3; b++) {
		if (!(bits >> b & 1))
			continue;
		qn_part p = {.role = role_of_bit[1 << b]};
		QN_TRY(qn_tag_channels(t, l, operand[b], &p.rows, &p.n));
		whole |= p.n == l->n || p.n < 0;
		parts[n++] = p;
	}
	if (whole) { /* one weight that serves as several: it takes the first of its roles */
		l->role = parts[0].role;
		return QUERN_OK;
	}
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

/* The activation that a layer reads, through what only moves it: two layers with the same source attend to the same stream. */
static const qn_value *source(const qn_layer *l)
{
	const qn_value *v = l->node->in[l->weight_in == 0];
	while (v->producer && (v->producer->op->traits & QN_LAYOUT))
		v = v->producer->in[0];
	return v;
}

static qn_status give_roles(qn_tagger *t, attention *at, const qn_nodes *readers, int *block)
{
	const qn_layer *query = NULL;
	for (size_t i = 0; i < at->layers.n; i++)
		if (at->bits[i] & Q)
			query = qn_tag_layer(t, at->layers.v[i]);
	bool cross = query != NULL;
	for (size_t i = 0; i < at->layers.n; i++)
		if (at->bits[i] & V)
			cross &= source(qn_tag_layer(t, at->layers.v[i])) != source(query);
	if (*block < 0 || !cross)
		(*block)++;
	for (size_t i = 0; i < at->layers.n; i++) {
		qn_layer *l = qn_tag_layer(t, at->layers.v[i]);
		if ((at->bits[i] & (at->bits[i] - 1)) == 0)
			l->role = role_of_bit[at->bits[i]];
		else
			QN_TRY(give_parts(t, l, at->operand[i], at->bits[i]));
		l->block = *block;
		l->cross = cross;
	}
	for (size_t i = 0; i < readers->n; i++) {
		qn_layer *l = qn_tag_layer(t, readers->v[i]);
		if (l->role == QN_ROLE_NONE) {
			l->role = QN_ROLE_OUTPUT;
			l->block = *block;
			l->cross = cross;
		}
	}
	return QUERN_OK;
}

static qn_status tag_softmax(qn_tagger *t, qn_node *softmax, int *block)
{
	back_walk scores = back_from(t, softmax->in[0]);
	mixes m = {.n = 0};
	find_mixes(t, softmax->out[0], QN_NEW(t->a, uint8_t, t->g->n_values), &m);
	if (!scores.products.n || !m.n)
		return QUERN_OK;
	attention *at = QN_NEW(t->a, attention, 1);
	qn_nodes readers = {0};
	bool swapped = scores_are_transposed(softmax);
	for (size_t i = 0; i < scores.products.n; i++)
		for (int side = 0; side < 2; side++) {
			qn_value *operand = scores.products.v[i]->in[side];
			back_walk w = back_from(t, operand);
			note_layers(at, t, &w, (side == 0) != (swapped != (bool)(scores.swapped >> i & 1)) ? Q : K, operand);
		}
	for (int i = 0; i < m.n; i++) {
		qn_value *operand = m.v[i].node->in[1 - m.v[i].probabilities];
		back_walk w = back_from(t, operand);
		note_layers(at, t, &w, V, operand);
		find_readers(t, m.v[i].node->out[0], QN_NEW(t->a, uint8_t, t->g->n_values), &readers);
	}
	return give_roles(t, at, &readers, block);
}

qn_status qn_tag_attention(qn_tagger *t)
{
	int block = -1;
	for (qn_node *n = t->g->first; n; n = n->next)
		if (n->op->hint == QN_HINT_SOFTMAX && n->out[0] && !n->out[0]->is_const)
			QN_TRY(tag_softmax(t, n, &block));
	return QUERN_OK;
}
