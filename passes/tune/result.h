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
	const char *json;
};

/* The text for `json`. */
void qn_result_json(const qn_tuner *t, const qn_solution *s, const struct quern_tuning *r, qn_text *out);

#endif
