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

/* tag_attention.c: finds attentions, gives query, key, value, qkv and output. */
qn_status qn_tag_attention(qn_tagger *t);
/* tag_channels.c: which output channels of `layer` reach value v: ascending in *rows; *n is -1 where that cannot be followed. */
qn_status qn_tag_channels(qn_tagger *t, const qn_layer *layer, qn_value *v, int64_t **rows, int64_t *n);
/* tag_branch.c: gives ffn and head to the layers left, and a reason to the rest. */
void qn_tag_branches(qn_tagger *t);

#endif
