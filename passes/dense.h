/* dense.h - shared by the files of the dense pass: what is known of values that hang on a list of chosen positions. */
#ifndef QN_DENSE_H
#define QN_DENSE_H

#include "graph/op.h"

/* Coordinates of the chosen positions: of n axes of the mask, side by side along `axis`. n == 1: in any layout; n == 0: no coordinates. */
typedef struct qn_coords {
	int n, axis;
	int of[QN_MAX_RANK];
} qn_coords;

/* The list that a NonZero makes of a mask, and all that hangs on it. */
typedef struct qn_list {
	qn_graph *g;
	qn_arena *a;     /* scratch */
	qn_node *source; /* the NonZero */
	qn_value *mask;
	qn_dim length; /* the symbol that stands for the number of chosen positions */
	const char *symbol;
	int rank; /* of the mask */
	qn_dim dim[QN_MAX_RANK];
	qn_coords *coords; /* by value id */
	int8_t *axis;      /* by value id: 1 + the axis that runs along the list, 0 where there is none */
	size_t n_values;   /* that the two arrays know */
	qn_node **nodes;   /* that read something of the list, in order */
	size_t n_nodes, cap_nodes;
	int into; /* the mask axis whose positions the results are added to; -1: all */
} qn_list;

static inline int qn_list_axis(const qn_list *l, const qn_value *v)
{
	return v && (size_t)v->id < l->n_values ? l->axis[v->id] - 1 : -1;
}
static inline qn_coords qn_list_coords(const qn_list *l, const qn_value *v)
{
	return v && (size_t)v->id < l->n_values ? l->coords[v->id] : (qn_coords){0};
}
/* A scatter of rows of the list to the positions they came from. */
bool qn_list_is_scatter(const qn_node *n);

/* dense_list.c: follows the list through the graph. False, nothing changed, when some reader needs the list as such: works along it, or
 * returns it. */
bool qn_list_follow(qn_list *l);
/* dense.c rewrites. */

#endif
