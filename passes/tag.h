/* tag.h - shared by the files of the tagging pass: walks over the graph that see through what does not matter to a role. */
#ifndef QN_TAG_H
#define QN_TAG_H

#include "passes/plan.h"

typedef struct qn_tagger {
	qn_graph *g;
	qn_plan *plan;
	qn_arena *a;        /* scratch */
	qn_layer **of_node; /* by node id; NULL where the node is no layer */
} qn_tagger;

typedef struct qn_nodes {
	qn_node **v;
	size_t n, cap;
} qn_nodes;

void qn_nodes_add(qn_nodes *s, qn_arena *a, qn_node *n); /* once */
bool qn_nodes_has(const qn_nodes *s, const qn_node *n);

/* The layer of a node when it is a product with a constant that can have a role (convolutions with a wider kernel cannot). */
qn_layer *qn_tag_layer(const qn_tagger *t, const qn_node *n);
bool qn_tag_is_sum(const qn_node *n); /* Add or Sub of two activations */
/* A gather from a constant table. */
bool qn_tag_is_table(const qn_tagger *t, const qn_node *n);
/* The operand of a layer that is no weight. */
static inline qn_value *qn_tag_activation(const qn_layer *l) { return l->node->in[l->weight_in == 0]; }

/* tag_attention.c: finds attentions, gives query, key, value, qkv and output. */
qn_status qn_tag_attention(qn_tagger *t);
/* --- tag_source.c: what the layers of one attention read ---------------------------------------------------------- */
enum { QN_TAG_Q = 1, QN_TAG_K = 2, QN_TAG_V = 4 };
typedef struct qn_tag_member {
	qn_layer *layer;
	uint8_t bits;         /* which of the three it serves as */
	qn_value *operand[3]; /* where it is reached from, by order of the bits; NULL for a layer in front of others */
} qn_tag_member;
typedef struct qn_tag_members {
	qn_tag_member *v;
	size_t n, cap;
} qn_tag_members;
qn_tag_member *qn_tag_member_of(const qn_tag_members *m, const qn_layer *l); /* NULL: not among them */
/* Adds the layers in front of the members whose results only members read: the first of two factors of a projection of low rank. */
void qn_tag_add_factors(qn_tagger *t, qn_tag_members *m);
/* Whether no query has a source in common with a value. */
bool qn_tag_is_cross(qn_tagger *t, const qn_tag_members *m);

/* tag_analysis.c: adds the attention to the plan. */
void qn_tag_note_attention(qn_tagger *t, const qn_node *softmax, const qn_nodes *products, const qn_tag_members *m, int block, bool cross);

/* tag_channels.c: which output channels of `layer` reach value v: ascending in *rows; *n is -1 where that cannot be followed. */
qn_status qn_tag_channels(qn_tagger *t, const qn_layer *layer, qn_value *v, int64_t **rows, int64_t *n);
/* tag_branch.c: gives ffn and head to the layers left, and a reason to the rest. */
void qn_tag_branches(qn_tagger *t);

#endif
