/* stored.h - a layer's weight in its stored form: a constant that is quantized each time it is loaded, and the small vectors beside it. */
#ifndef QN_PASSES_STORED_H
#define QN_PASSES_STORED_H

#include "passes/config.h"
#include "passes/plan.h"

/* A float source (with the rows taken, NULL: all) and how it is rounded; or, where `ready` is given, the result of a rounding made ahead. */
typedef struct qn_store {
	qn_value *source;
	const int64_t *rows;
	int64_t n, k;
	int bits; /* 2^bits levels */
	qn_form form;
	const quern_config *config;
	float scale_min;
	const qn_tensor *ready, *ready_scale;
	qn_plan *plan; /* notes what is stored */
	size_t layer;  /* its index there */
} qn_store;

/* A stored weight, or the part of one, and how it was made. */
typedef struct qn_stored_weight {
	size_t layer;
	qn_store made;
	qn_value *value;
} qn_stored_weight;

/* The floats that are stored, [n, k], in `a`. */
qn_status qn_store_source(qn_graph *g, const qn_store *s, qn_arena *a, const float **out);
/* The weight as a constant of the form's type, [n, k], noted in the plan. */
qn_value *qn_store_weight(qn_graph *g, const qn_store *s);
/* An i8 weight's scales [n]. Where `sums` is not NULL, also the sum of each row's codes [n]. Both in `a`. */
qn_status qn_store_scales(qn_graph *g, const qn_store *s, qn_arena *a, float **scales, int64_t **sums);
/* The elements of a bias that go with the rows; the bias itself where all rows are taken. NULL stays NULL. */
qn_status qn_store_bias(qn_graph *g, const qn_store *s, qn_value *bias, qn_value **out);
/* A vector [n] of ours as a constant named after `name`; the data is borrowed. */
qn_value *qn_store_vector(qn_graph *g, const char *name, const float *v, int64_t n);

#endif
