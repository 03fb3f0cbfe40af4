/* curve.h - what a tuning found: size against error, kept in the allocation file. */
#ifndef QN_CURVE_H
#define QN_CURVE_H

#include <stddef.h>
#include <stdint.h>

/* One allocation of widths. */
typedef struct qn_curve_point {
	uint64_t bytes;      /* of all weights and constants as stored */
	double bits;         /* a weight, scales included: mean over the layers that `bits` of a tuning counts */
	double error;        /* of the graph's outputs as the model of costs adds it up; the tuning's `measure` says in what */
	double measured;     /* by execution of the compiled graph, 1 - cosine of the worst output as an evaluation finds it, or bits of divergence; NAN: not executed */
	const char *changed; /* layer whose weight is wider here than in the point before; NULL: the first point, or several layers */
	int weight_bits;     /* its width here; 0 without `changed` */
} qn_curve_point;

typedef struct qn_tuning {
	const char *measure; /* "cosine": 1 - cosine, mean over samples and outputs; "kl": bits of divergence from float a row of logits */
	size_t samples;
	qn_curve_point chosen; /* `changed` is NULL */
	qn_curve_point *points; /* bytes ascending, errors descending; each the least error for its bytes */
	size_t n, cap;
} qn_tuning;

#endif
