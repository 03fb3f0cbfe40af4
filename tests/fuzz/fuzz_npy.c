/* fuzz_npy.c - any bytes go into the .npy reader; what it accepts must survive being written and read again. */
#include "graph/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static qn_status round_trip(qn_ctx *ctx, qn_arena *a, const uint8_t *data, size_t size)
{
	QN_ENTER(ctx, saved, buf);
	qn_tensor t, again;
	const void *file;
	size_t n;
	qn_status status = qn_npy_decode(ctx, a, "fuzz.npy", data, size, &t);
	if (status == QUERN_OK) {
		size_t bytes = qn_tensor_bytes(&t);
		if (qn_npy_encode(ctx, a, "fuzz.npy", &t, &file, &n) != QUERN_OK ||
			qn_npy_decode(ctx, a, "again.npy", file, n, &again) != QUERN_OK)
			abort();
		if (again.type != t.type || again.rank != t.rank || (bytes && memcmp(again.data, t.data, bytes)))
			abort();
	}
	QN_LEAVE(ctx, saved);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	qn_ctx ctx = {0};
	qn_arena a;
	qn_arena_init(&a, &ctx);
	qn_status status = round_trip(&ctx, &a, data, size);
	if (status == QUERN_ERR_INTERNAL || (status != QUERN_OK && !*ctx.message))
		abort();
	qn_arena_release(&a);
	return 0;
}
