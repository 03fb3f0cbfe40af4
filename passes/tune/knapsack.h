/* knapsack.h - one choice for each group so that the sum of bytes and the sum of errors are both small: the multiple-choice knapsack, solved for all budgets at
 * once. */
#ifndef QN_KNAPSACK_H
#define QN_KNAPSACK_H

#include "graph/base.h"

typedef struct qn_choice {
	uint64_t bytes;
	double error; /* >= 0 */
} qn_choice;

typedef struct qn_choices {
	const qn_choice *choice;
	int n; /* >= 1 */
} qn_choices;

typedef struct qn_frontier_point {
	uint64_t bytes;
	double error;
} qn_frontier_point;

/* Sums that no other beats in both, bytes ascending, errors descending. */
typedef struct qn_frontier {
	qn_frontier_point *points;
	size_t n;
	bool exact; /* false: there were more than `most`, and every other one was left out on the way */
	const struct qn_frontier_step *steps; /* how each point came about, one step a group */
	size_t n_groups;
} qn_frontier;

/* Optimal for every budget, by dynamic programming over the undominated sums (Nemhauser and Ullmann 1969), unless more than `most` sums are undominated at some
 * step. Same result every time. Lives in `a`. */
void qn_frontier_make(qn_arena *a, const qn_choices *groups, size_t n, size_t most, qn_frontier *out);
/* Which choice each group has at a point. */
void qn_frontier_choices(const qn_frontier *f, size_t point, int *choice);
/* The last point of at most `bytes`; f->n where there is none. */
size_t qn_frontier_within_bytes(const qn_frontier *f, uint64_t bytes);
/* The first point of at most `error`; f->n where there is none. */
size_t qn_frontier_within_error(const qn_frontier *f, double error);

/* A point of the lower convex hull of all sums: it differs from the one before in one group. The hull's points are optimal for their bytes. */
typedef struct qn_hull_point {
	uint64_t bytes;
	double error;
	size_t group;    /* that changed; of the first point SIZE_MAX */
	int choice;      /* which it has now */
} qn_hull_point;

/* From the smallest to the largest useful sum. `choice` gets those of the first point. Returns how many; in `a`. */
size_t qn_hull_make(qn_arena *a, const qn_choices *groups, size_t n, int *choice, qn_hull_point **out);
/* No choice of at most `bytes` has less error than this; infinite where nothing is that small. */
double qn_hull_bound(const qn_hull_point *h, size_t n, uint64_t bytes);

#endif
