/* result.h (private) - what a tuning hands out. */
#ifndef QN_TUNE_RESULT_H
#define QN_TUNE_RESULT_H

#include "passes/tune/tuner.h"

struct quern_tuning {
	qn_ctx *ctx;
	qn_arena arena;
	qn_tuning tuning;
	double gap;
	size_t layers[QN_MOST_CANDIDATES], fixed;
	size_t act_layers[2];               /* activations of 8 and of 16 bits */
	double act_error;
	uint64_t products, narrow_products; /* multiply-adds of all units; those in products of 8-bit integers */
	const char *json;
};

/* The hull's points, none executed. */
void qn_result_curve(const qn_tuner *t, const qn_solution *s, struct quern_tuning *r);
/* The chosen point, and how many layers have which width there. measured: NAN where it was not executed. */
void qn_result_choice(const qn_tuner *t, const qn_solution *s, double measured, struct quern_tuning *r);
/* How the text for `json` begins, and how a former one is known. */
#define QN_TUNING_RESULT_BEGINS "{ \"tuning\":"
/* The text. */
void qn_result_json(const qn_tuner *t, const qn_solution *s, const struct quern_tuning *r, qn_text *out);

#endif
