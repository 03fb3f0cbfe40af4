/* _reduce.h - reductions over any set of axes.
 *
 * Floats are accumulated as f64, integers as i64. Sums of a row run in eight lanes whatever the machine or thread count, so results
 * do not depend on either. */
#ifndef QN_OPS_REDUCE_H
#define QN_OPS_REDUCE_H

#include "graph/emit.h"
#include "graph/ops/_span.h"

/* Axes joined into the fewest; `by_row` when the last one is reduced (a contiguous row), else the last one is kept (columns). */
typedef struct qn_reduce_plan {
	int n_kept, n_reduced;
	int64_t kept[QN_MAX_RANK], kept_stride[QN_MAX_RANK];
	int64_t reduced[QN_MAX_RANK], reduced_stride[QN_MAX_RANK];
	int64_t outputs, count; /* elements of the result, elements behind each */
	int64_t inner;          /* length of a row, or columns side by side */
	bool by_row;
} qn_reduce_plan;
void qn_reduce_plan_make(qn_reduce_plan *p, const qn_tensor *x, const bool *reduced);

/* By row: folds n elements into acc[0]; else x[i] into acc[i]. `shift`, where given: one number an accumulator. */
typedef void (*qn_fold)(const void *x, int64_t n, void *acc, bool by_row, const double *shift);

typedef enum { QN_START_ZERO, QN_START_ONE, QN_START_LOWEST, QN_START_HIGHEST } qn_start;

typedef struct qn_reducer {
	qn_start start; /* the result over no elements, before `finish` */
	qn_fold f64, i64; /* i64 NULL: integers are computed as f64 too */
	double (*finish)(double acc, int64_t count); /* may be NULL */
	int64_t (*finish_int)(int64_t acc, int64_t count);
	float (*engine)(float sum, int64_t count); /* what the engine makes of its sum of f32; NULL: its order is not followed */
	qn_dim (*dim)(qn_dims *t, qn_dim acc, qn_dim x); /* NULL: undecided for dims */
} qn_reducer;

/* acc[o] for each output, not finished, as f64 (also for integers). shift: one number an output, or NULL. */
void qn_reduce_f64(const qn_call *c, const qn_reduce_plan *p, const qn_tensor *x, qn_fold fold, double start, const double *shift,
	double *acc);

/* The axes of a Reduce node, as a mask; an empty list is none or all, by noop_with_empty_axes. */
qn_status qn_reduce_axes(qn_call *c, bool *reduced);
qn_status qn_reduce_infer(qn_call *c);
qn_status qn_reduce_eval(qn_call *c, const qn_reducer *r);

/* Emission: the axes as "[1, 2]" (NULL where nothing is reduced), and output 0 from an expression with axes kept as 1. */
qn_status qn_reduce_emit_axes(qn_emit *e, const char **axes);
qn_status qn_reduce_emit_done(qn_emit *e, const char *axes, const char *kept);
/* verb(x, axes=axes) */
qn_status qn_reduce_emit(qn_emit *e, const char *verb);
/* The same for max_reduce and min_reduce, whose result over no elements is `limit` (the engine has the largest finite number there). */
qn_status qn_reduce_emit_extreme(qn_emit *e, const char *verb, const char *limit);

/* A fold from `map` of an element v and `join` of accumulators a and b. */
#define QN_FOLD(fn, type, map, join)                                                                                   \
	static inline type fn##_map(type v) { return map; }                                                            \
	static inline type fn##_join(type a, type b) { return join; }                                                  \
	QN_VECTOR static void fn(const void *px, int64_t n, void *pacc, bool by_row, const double *shift)              \
	{                                                                                                              \
		const type *x = px;                                                                                    \
		type *acc = pacc, lane[8];                                                                             \
		int64_t i = 0;                                                                                         \
		(void)shift;                                                                                           \
		if (!by_row) {                                                                                         \
			QN_SIMD for (int64_t k = 0; k < n; k++) acc[k] = fn##_join(acc[k], fn##_map(x[k]));            \
			return;                                                                                        \
		}                                                                                                      \
		if (n >= 16) {                                                                                         \
			for (int l = 0; l < 8; l++)                                                                    \
				lane[l] = fn##_map(x[l]);                                                              \
			for (i = 8; i + 8 <= n; i += 8)                                                                \
				for (int l = 0; l < 8; l++)                                                            \
					lane[l] = fn##_join(lane[l], fn##_map(x[i + l]));                              \
			for (int l = 0; l < 8; l++)                                                                    \
				acc[0] = fn##_join(acc[0], lane[l]);                                                   \
		}                                                                                                      \
		for (; i < n; i++)                                                                                     \
			acc[0] = fn##_join(acc[0], fn##_map(x[i]));                                                    \
	}

/* The row of an operator with a qn_reducer named `reducer` and a function `emit`. */
#define QN_REDUCE_ROW(id, onnx, dims)                                                                                  \
	static qn_status eval(qn_call *c) { return qn_reduce_eval(c, &reducer); }                                      \
	const qn_op qn_op_##id = {.name = onnx, .min_in = 1, .max_in = 2, .dims_in = dims,                             \
		.infer = qn_reduce_infer, .eval = eval, .emit = emit}

#endif
