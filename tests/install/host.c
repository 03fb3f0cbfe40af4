/* host.c - a program that uses the installed library as any other would: opens a context, compiles a model, hears of an error. */
#include <quern/quern.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	quern_context *ctx = quern_open(NULL);
	quern_config *config = quern_config_new(ctx);
	quern_model *model;
	quern_summary summary;
	if (quern_model_load(ctx, "no such file.onnx", config, &model) == QUERN_OK || model || !strstr(quern_message(ctx), "no such file.onnx"))
		return 3;
	if (quern_model_load(ctx, argv[1], config, &model) != QUERN_OK || quern_compile(model, argv[2], &summary) != QUERN_OK) {
		fprintf(stderr, "%s\n", quern_message(ctx));
		return 1;
	}
	printf("%zu layers, archive smaller: %s\n", quern_model_layers(model), summary.archive_bytes < summary.model_bytes ? "yes" : "no");
	quern_model_free(model);
	quern_config_free(config);
	quern_close(ctx);
	return 0;
}
