/* qscheme.h (private) - what the files behind qtensor.h share. */
#ifndef QN_QSCHEME_H
#define QN_QSCHEME_H

#include "graph/tensor.h"
#include "passes/context.h"
#include "passes/quant/q4_block.h"
#include <quern/qtensor.h>

struct quern_qscheme {
	qn_ctx *ctx;
	size_t bytes; /* of this block */
	int bits;
	int64_t group, n;
	qn_quant_report report;
	uint16_t scale[];
};

/* Runs `fn` with a scratch arena and the memory status caught; the arena is released either way. */
qn_status qn_guarded(qn_ctx *ctx, qn_status (*fn)(qn_ctx *ctx, qn_arena *scratch, void *args), void *args);

/* Checks type and dims; *count and the values as f32: the caller's own, or a copy in the arena. */
qn_status qn_floats_take(qn_ctx *ctx, qn_arena *a, const quern_floats *f, const float **values, int64_t *count);

void qn_report_public(const qn_quant_report *r, quern_scale_report *out);
/* A line for the host when scales lost bits in f16. */
void qn_report_warn(qn_ctx *ctx, const char *what, const qn_quant_report *r);

/* The bytes of a .dat file: header and data in one piece of the arena. */
qn_status qn_dat_file(qn_ctx *ctx, qn_arena *a, const char *name, const qn_tensor *t, bool legacy, uint8_t **file, size_t *n);
/* Writes a file beside `path` and renames it; a failure leaves nothing behind and an older file untouched. */
qn_status qn_file_replace(qn_ctx *ctx, qn_arena *a, const char *path, const void *data, size_t n);

#endif
