/* eval.h - the float graph and the compiled graph of one model, run side by side on samples. */
#ifndef QN_EVAL_H
#define QN_EVAL_H

#include "graph/exec.h"
#include "graph/samples.h"
#include "passes/damage.h"
#include "passes/model.h"

/* One compared value: a graph output or a layer's result. */
typedef struct qn_eval_item {
	qn_value *exact, *got; /* in the float and in the compiled graph */
	qn_damage damage;
	size_t layer;
	int output;  /* -1: of a layer */
	bool logits; /* an output that a head layer makes */
} qn_eval_item;

struct quern_evaluation {
	qn_ctx *ctx;
	qn_arena arena;
	quern_model *exact, *got; /* the first as loading left it, the second quantized */
	qn_eval_item *items;      /* outputs in order, then layers in graph order */
	size_t n, n_outputs;
	size_t samples, samples_given, samples_taken; /* run so far, found, to be run */
};

/* What has just run on a sample; values that the float graph's items name are held in `exact`. */
typedef struct qn_eval_pair {
	qn_exec *exact, *got;
	qn_consts *consts; /* of the float graph */
} qn_eval_pair;

typedef struct qn_eval_plan {
	const char *stage;   /* of the progress */
	size_t most_samples; /* 0: all; else that many, evenly spread */
	const char *outputs; /* NULL, or a .npz for the compiled outputs of the first sample */
	void *user;
	qn_observe_fn see_exact; /* NULL, or sees each value of the float graph */
	qn_status (*after)(void *user, const qn_tensor *const *in, const qn_eval_pair *ran); /* NULL, or called once both have run; may run them again */
} qn_eval_plan;

/* Fills the items of e->exact and e->got. */
void qn_evaluation_pair(quern_evaluation *e);
/* Runs both graphs on the samples and adds up the damage of each item. */
qn_status qn_evaluation_run(quern_evaluation *e, const char *samples, const qn_eval_plan *plan);
/* What the compiled graph computed for an item, without the factors of the layers that read it and in the float graph's order of channels. */
const qn_tensor *qn_eval_undivided(const quern_evaluation *e, const qn_eval_item *it, const qn_tensor *got, qn_arena *scratch);

#endif
