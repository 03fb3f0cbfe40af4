/* _einsum.h - equations over axis labels: parsing, and the order in which operands are folded together. */
#ifndef QN_OPS_EINSUM_H
#define QN_OPS_EINSUM_H

#include "graph/emit.h"

enum { QN_EINSUM_LABELS = 40, QN_EINSUM_OPERANDS = 16 };

typedef struct qn_term {
	int n;
	int label[QN_EINSUM_LABELS]; /* indices into qn_einsum.last_use */
} qn_term;

typedef struct qn_einsum {
	int n_in, n_labels;
	qn_term in[QN_EINSUM_OPERANDS], out;
	int last_use[QN_EINSUM_LABELS]; /* the last operand with that label; n_in where the output has it */
} qn_einsum;

/* Parses the node's equation for operands of those ranks ("..." stands for the axes that the letters leave). Returns NULL, or what
 * is wrong. */
const char *qn_einsum_parse(qn_arena *a, const qn_node *n, const int *rank, qn_einsum *e);
bool qn_term_has(const qn_term *t, int label);
/* The labels of `t`, each once, that operands after `operand` or the output need; those in `also` too (NULL: none). */
void qn_einsum_needed(const qn_einsum *e, const qn_term *t, int operand, const qn_term *also, qn_term *kept);
/* What is left of the product of two terms of distinct labels: common to both and needed; of the left; of the right; summed. */
void qn_einsum_split(const qn_einsum *e, const qn_term *l, const qn_term *r, int operand, qn_term *batch, qn_term *m, qn_term *n,
	qn_term *k);
void qn_term_join(qn_term *t, const qn_term *more);

#endif
