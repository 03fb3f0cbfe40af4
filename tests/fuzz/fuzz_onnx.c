/* fuzz_onnx.c - any bytes go into the ONNX loader. */
#include "graph/onnx.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static qn_status load(qn_ctx *ctx, const uint8_t *data, size_t size, qn_arena *a, qn_graph **g)
{
	QN_ENTER(ctx, saved, buf);
	qn_status status = qn_onnx_load_bytes(ctx, "fuzz.onnx", data, size, NULL, a, g);
	QN_LEAVE(ctx, saved);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	qn_ctx ctx = {0};
	qn_arena a;
	qn_graph *g = NULL;
	qn_arena_init(&a, &ctx);
	qn_status status = load(&ctx, data, size, &a, &g);
	if (status == QUERN_ERR_INTERNAL || (status == QUERN_OK && qn_graph_check(g) != QUERN_OK) || (status != QUERN_OK && !*ctx.message))
		abort();
	qn_arena_release(&a);
	return 0;
}
