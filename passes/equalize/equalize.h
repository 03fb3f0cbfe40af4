/* equalize.h (private) - tensors whose channels can be scaled at no cost, and the choice of the scales.
 *
 * A tensor x that only linear layers read is divided by s, channel by channel, and the layers' weights are multiplied by it. What makes x
 * takes 1 / s: the gain of a norm, or the rows of a linear layer whose result comes to x in a way that is linear in it (attention in its
 * values, a gate's other operand, Relu). */
#ifndef QN_EQUALIZE_H
#define QN_EQUALIZE_H

#include "passes/moments.h"
#include "passes/plan.h"

enum { QN_EQUAL_READERS = 64 };

/* How the channels of a norm or a layer come to a tensor that linear layers read. */
typedef struct qn_equal_path {
	qn_value *x;
	int64_t *channel; /* [k of the readers]: which channel of the source it is, times a number */
	const char *why;  /* x NULL: what is in the way; text in the plan's arena */
	bool sum;         /* that is a sum with other activations: the stream between blocks, nothing to tell of */
} qn_equal_path;

typedef struct qn_equal_group {
	qn_value *x;
	int64_t k;
	qn_layer *readers[QN_EQUAL_READERS];
	size_t n;
	qn_node *norm;          /* what makes x: this, */
	qn_layer *maker;        /* or this layer, */
	const int64_t *channel; /* [k]: which channel of that each of x is; NULL where neither */
	const char *why;        /* it cannot be or is not equalized */
	double error;
	const float *s; /* [k] */
	const float *t; /* by channel of what makes x */
} qn_equal_group;

static inline qn_node *qn_equal_source(const qn_equal_group *e)
{
	return e->norm ? e->norm : e->maker->node;
}
/* How many channels that makes. */
static inline int64_t qn_equal_channels(const qn_equal_group *e)
{
	const qn_shape *s = &qn_equal_source(e)->out[0]->fact.shape;
	return s->dim[s->rank - 1].k;
}
/* Whether a layer is a linear one with a constant weight of its own. */
bool qn_equal_is_own(const qn_plan *p, const qn_layer *l);

/* --- path.c: follows the channels of `from`, a norm or a layer (of a fused weight: those of the value) */
qn_status qn_equal_follow(qn_graph *g, qn_plan *p, const qn_node *from, qn_arena *scratch, qn_equal_path *out);

/* --- search.c: s and error of a group. m: of x over the samples; NULL: there are none, and what the constants say of x is taken. `why` is
 * set where no factors are worth it. */
qn_status qn_equal_search(qn_graph *g, const qn_plan *p, qn_equal_group *e, const qn_moments *m);
/* Channels that are one in the source get one factor, the geometric mean of theirs; all are scaled so that their geometric mean is 1. */
void qn_equal_settle(const qn_equal_group *e, qn_arena *scratch, double *log_s);

/* --- apply.c: into the graph, and out of it again. */
/* What stood where the factors went. */
typedef struct qn_equal_undo {
	qn_value *source[2];                 /* of the norm or the maker: gain or weight, and bias */
	qn_value *weights[QN_EQUAL_READERS]; /* of the readers */
	const float *divided;                /* of the maker */
} qn_equal_undo;
/* *undo is NULL, and why is set, where a constant cannot take the factors. */
qn_status qn_equal_apply(qn_graph *g, qn_plan *p, qn_equal_group *e, qn_arena *a, qn_equal_undo **undo);
void qn_equal_take_back(qn_graph *g, qn_equal_group *e, const qn_equal_undo *undo);

/* --- verify.c: how far results are from what they were, relative L2, the worst of them */
#define QN_EQUAL_TOLERANCE 1e-5
/* The graph's outputs for some samples, as they are now. */
typedef struct qn_equal_before {
	size_t n;
	const qn_tensor ***inputs; /* [n][graph input] */
	qn_tensor **outputs;       /* [n][graph output] */
} qn_equal_before;
qn_status qn_equal_run(qn_graph *g, qn_samples *samples, qn_arena *a, qn_equal_before *out);
qn_status qn_equal_outputs_error(qn_graph *g, const qn_equal_before *before, double *worst);
/* Without samples: the readers' results for drawn numbers, from the source's constants on, in f64. */
qn_status qn_equal_products_error(qn_graph *g, const qn_equal_group *e, const qn_equal_undo *before, double *worst);

#endif
