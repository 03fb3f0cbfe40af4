/* fuzz_config.c - any bytes go into the readers of configurations and of allocations; an accepted configuration survives being written and read. */
#include "passes/allocation.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(quern_context *context, qn_status status)
{
	if (status == QUERN_ERR_INTERNAL || (status != QUERN_OK && !*quern_message(context)))
		abort();
}

static void configuration(quern_context *context, const char *text)
{
	quern_config *c = quern_config_new(context), *again = quern_config_new(context);
	const char *first, *second;
	qn_status status = quern_config_parse(c, text, "fuzz.json");
	check(context, status);
	if (quern_config_write(c, &first) != QUERN_OK || quern_config_parse(again, first, "again.json") != QUERN_OK ||
		quern_config_write(again, &second) != QUERN_OK || strcmp(first, second))
		abort();
	quern_config_free(c);
	quern_config_free(again);
}

static qn_status allocation(qn_ctx *ctx, qn_arena *a, const uint8_t *data, size_t size)
{
	QN_ENTER(ctx, saved, buf);
	qn_allocation *f;
	qn_status status = qn_allocation_parse(ctx, a, "fuzz.json", (const char *)data, size, &f);
	QN_LEAVE(ctx, saved);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	quern_context *context = quern_open(NULL);
	quern_config *config = quern_config_new(context);
	char *text = malloc(size + 1);
	if (!config || !text)
		abort();
	memcpy(text, size ? (const void *)data : "", size);
	text[size] = '\0';
	configuration(context, text);
	qn_arena a;
	qn_arena_init(&a, config->ctx);
	check(context, allocation(config->ctx, &a, data, size));
	qn_arena_release(&a);
	free(text);
	quern_config_free(config);
	quern_close(context);
	return 0;
}
