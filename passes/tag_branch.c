/* tag_branch.c - what is left after the attentions: ffn (the layers of a residual branch), head (what makes the outputs), and a
 * reason for each layer that is neither. */
#include "passes/tag.h"

enum {
	MOST_BRANCHES = 3, /* that one sum puts on the stream, besides the one in question */
	MOST_MOVES = 12,   /* between a table and the products that its rows go into */
};

/* Where the output of a layer goes, up to the next layers and up to the sum with the stream that its branch reads. */
typedef struct ahead {
	qn_tagger *t;
	const uint8_t *stream; /* by value id: what the branch reads */
	uint8_t *seen;
	bool to_the_end; /* whether to go on behind selections and products of activations */
	qn_nodes layers;
	bool residual, output, selection, product, convolution;
} ahead;

/* Whether v is of the stream, or the stream with other branches added to it already. */
static bool holds_stream(const ahead *w, const qn_value *v, int sums)
{
	if (w->stream[v->id])
		return true;
	const qn_node *n = v->producer;
	return n && sums && qn_tag_is_sum(n) && (holds_stream(w, n->in[0], sums - 1) || holds_stream(w, n->in[1], sums - 1));
}

/* A convolution of each channel with its neighbours in the sequence: a step of an ffn, not a layer. */
static bool mixes_neighbours(const qn_tagger *t, const qn_node *n)
{
	const qn_layer *l = t->of_node[n->id];
	return l && qn_node_int(n, "group", 1) > 1 && qn_dim_is(n->in[l->weight_in]->fact.shape.dim[1], 1);
}

static void look_ahead(ahead *w, qn_value *v)
{
	if (w->seen[v->id])
		return;
	w->seen[v->id] = 1;
	w->output |= v->is_output;
	for (size_t i = 0; i < v->n_uses; i++) {
		qn_node *n = v->uses[i].node;
		qn_layer *l = qn_tag_layer(w->t, n);
		if (l) {
			if (v->uses[i].input != l->weight_in)
				qn_nodes_add(&w->layers, w->t->a, n);
			continue;
		}
		if (qn_tag_is_sum(n) && holds_stream(w, n->in[1 - v->uses[i].input], MOST_BRANCHES)) {
			w->residual = true;
			continue;
		}
		if (n->op->hint == QN_HINT_SELECTION) {
			w->selection = true;
			if (!w->to_the_end)
				continue;
		}
		if (n->op->hint == QN_HINT_CONTRACTION && !mixes_neighbours(w->t, n)) {
			w->product |= !w->t->of_node[n->id];
			w->convolution |= w->t->of_node[n->id] != NULL;
			if (!w->to_the_end || w->t->of_node[n->id])
				continue;
		}
		for (int k = 0; k < n->n_out; k++)
			if (n->out[k])
				look_ahead(w, n->out[k]);
	}
}

/* The values that a branch reads: back from its input through norms and moves, up to and including sums and layers' outputs. */
static void mark_stream(qn_tagger *t, const qn_value *v, uint8_t *stream)
{
	if (!v || v->is_const || stream[v->id])
		return;
	stream[v->id] = 1;
	const qn_node *n = v->producer;
	if (!n || qn_tag_is_sum(n) || t->of_node[n->id] || n->op->hint == QN_HINT_CONTRACTION)
		return;
	for (int i = 0; i < n->n_in; i++)
		mark_stream(t, n->in[i], stream);
}

static ahead ahead_of(qn_tagger *t, const qn_layer *l, const uint8_t *stream, bool to_the_end)
{
	ahead w = {.t = t, .stream = stream, .seen = QN_NEW(t->a, uint8_t, t->g->n_values), .to_the_end = to_the_end};
	look_ahead(&w, l->node->out[0]);
	return w;
}

/* Everything that v is computed from. A sum with any of it is a branch that ends, not a result. */
static void mark_before(const qn_value *v, uint8_t *before)
{
	const qn_node *n = v->producer;
	for (int i = 0; n && i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->is_const && !before[n->in[i]->id]) {
			before[n->in[i]->id] = 1;
			mark_before(n->in[i], before);
		}
}

static const uint8_t *stream_of(qn_tagger *t, const qn_layer *l)
{
	uint8_t *stream = QN_NEW(t->a, uint8_t, t->g->n_values);
	mark_stream(t, qn_tag_activation(l), stream);
	return stream;
}

static void give(qn_layer *l, qn_role role)
{
	l->role = role;
	l->why = NULL;
}

/* A layer, or two in a row, or several side by side, between the stream and the sum with it. */
static void tag_ffn(qn_tagger *t, qn_layer *l)
{
	const uint8_t *stream = stream_of(t, l);
	ahead one = ahead_of(t, l, stream, false);
	if (one.selection)
		return;
	if (one.residual && !one.layers.n) {
		give(l, QN_ROLE_FFN);
		return;
	}
	for (size_t i = 0; i < one.layers.n; i++)
		if (qn_tag_layer(t, one.layers.v[i])->role != QN_ROLE_NONE && qn_tag_layer(t, one.layers.v[i])->role != QN_ROLE_FFN)
			return;
	for (size_t i = 0; i < one.layers.n; i++) {
		qn_layer *down = qn_tag_layer(t, one.layers.v[i]);
		ahead two = ahead_of(t, down, stream, false);
		if (two.residual) {
			give(l, QN_ROLE_FFN);
			give(down, QN_ROLE_FFN);
		}
	}
}

/* Backward over the layers: what reaches an output through nothing but heads is head. */
static bool tag_head(qn_tagger *t, qn_layer *l)
{
	uint8_t *before = QN_NEW(t->a, uint8_t, t->g->n_values);
	mark_before(l->node->out[0], before);
	ahead w = ahead_of(t, l, before, true);
	if (w.residual || (!w.output && !w.layers.n))
		return false;
	for (size_t i = 0; i < w.layers.n; i++)
		if (qn_tag_layer(t, w.layers.v[i])->role != QN_ROLE_HEAD)
			return false;
	give(l, QN_ROLE_HEAD);
	return true;
}

/* Whether v goes nowhere but into products with activations of as many channels: cos and sin of positions, gates by position. A mask has one channel. */
static bool is_factor(const qn_value *v, int depth)
{
	if (v->is_output || !v->n_uses || !depth || v->fact.shape.rank < 1)
		return false;
	for (size_t i = 0; i < v->n_uses; i++) {
		const qn_node *n = v->uses[i].node;
		const qn_value *other = n->n_in == 2 ? n->in[1 - v->uses[i].input] : NULL;
		bool moves = (n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)) || qn_node_is(n, "Slice") || qn_node_is(n, "Split") || qn_node_is(n, "Concat") ||
			     qn_node_is(n, "Gather");
		if (moves) {
			for (int k = 0; k < n->n_out; k++)
				if (n->out[k] && n->out[k]->n_uses && !is_factor(n->out[k], depth - 1))
					return false;
			continue;
		}
		const qn_shape *a = &v->fact.shape, *b = other ? &other->fact.shape : NULL;
		if (!qn_node_is(n, "Mul") || other->is_const || b->rank < 1 || !qn_dim_equal(a->dim[a->rank - 1], b->dim[b->rank - 1]))
			return false;
	}
	return true;
}

static void give_reason(qn_tagger *t, qn_layer *l)
{
	const qn_op *op = l->node->op;
	if (op->hint == QN_HINT_CONTRACTION && !qn_tag_layer(t, l->node)) {
		l->why = "a convolution: it makes the sequence that the blocks work on, or mixes neighbours in it";
		return;
	}
	if (!qn_tag_layer(t, l->node)) {
		l->why = op->hint == QN_HINT_CONTRACTION ? "a product with a constant in another form than a layer's" : "a table that is added or looked at, not multiplied";
		return;
	}
	ahead w = ahead_of(t, l, stream_of(t, l), false);
	if (w.selection)
		l->why = "it chooses (a router): its result is compared, not multiplied";
	else if (w.layers.n)
		l->why = "a projection outside the residual branches";
	else if (w.convolution)
		l->why = "it feeds a convolution that mixes channels and neighbours";
	else if (w.product)
		l->why = "it feeds a product of activations that is no attention";
	else
		l->why = "its result reaches neither an output nor a residual sum";
}

void qn_tag_branches(qn_tagger *t)
{
	qn_plan *p = t->plan;
	for (size_t i = 0; i < p->n; i++)
		if (p->layers[i].role == QN_ROLE_NONE && qn_tag_layer(t, p->layers[i].node))
			tag_ffn(t, &p->layers[i]);
	for (size_t i = p->n; i-- > 0;)
		if (p->layers[i].role == QN_ROLE_NONE && qn_tag_layer(t, p->layers[i].node))
			tag_head(t, &p->layers[i]);
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		bool table = l->role == QN_ROLE_NONE && l->node->op->weight_input && l->node->op->hint == QN_HINT_NONE;
		if (table && is_factor(l->node->out[0], MOST_MOVES))
			l->why = "a table of factors, such as the cosines of positions, that activations are multiplied by";
		else if (table)
			l->role = QN_ROLE_EMBEDDING;
		else if (l->role == QN_ROLE_NONE)
			give_reason(t, l);
	}
}
