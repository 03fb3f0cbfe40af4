/* cmd_compile.c - quern compile */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct options {
	quern_context *ctx;
	quern_config *config;
	const char *output;
	bool json;
} options;

static const cli_option option_list[] = {
	{"o", "OUT", "OUT.nnef.tgz, OUT.nnef.tar, or a folder", 'o'},
	{"bits", "SPEC", "weight bits: 4, or by role: ffn=4,head=8 (default 4 in every layer with a role)", 'b'},
	{"layer", "NAME=BITS", "pin the layers of that name or glob (repeatable)", 'l'},
	{"weight-16bits", "NAME", "16-bit weights for the layers of that name or glob (repeatable)", 'w'},
	{"embedding-bits", "N", "bits of embedding tables (default 16; 4: Q4_0, 8: Q8_1)", 'e'},
	{"rounding", "R", "of Q4_0: mse (default), signed (ggml's), minmax (torch_to_nnef's)", 'r'},
	{"percentile", "P", "of minmax: quantile of the magnitudes that sets a scale, 0 < P <= 1", 'p'},
	{"set", "SYMBOL=N", "bind a dynamic dim by its original text (repeatable)", 's'},
	{"target", "T", "tract (default) or khronos", 't'},
	{"strict", NULL, "fail where a layer cannot have what was asked, instead of a wider form", 'S'},
	{"json", NULL, "print the result as JSON", 'j'},
	{0},
};

static int take(void *user, char key, const char *value);
static const cli_command command = {"compile MODEL.onnx -o OUT [options]",
	"Compiles an ONNX transformer into a quantized NNEF archive for tract. Without options: Q4_0 weights in every layer with a role.", option_list, take};

static int as_int(const char *s)
{
	char *end;
	long v = strtol(s, &end, 10);
	return *end || end == s || v < -1000000 || v > 1000000 ? -1 : (int)v;
}

static quern_status apply(options *o, char key, const char *value)
{
	char *end;
	double p;
	switch (key) {
	case 'b':
		return quern_config_bits(o->config, value);
	case 'l':
		return quern_config_layer(o->config, value);
	case 'w':
		return quern_config_weight_16bits(o->config, value);
	case 'e':
		return quern_config_embedding_bits(o->config, as_int(value));
	case 'r':
		return quern_config_rounding(o->config, value);
	case 'p':
		p = strtod(value, &end);
		return quern_config_percentile(o->config, *end || end == value ? -1 : p);
	case 's':
		return quern_config_set_symbol(o->config, value);
	case 't':
		return quern_config_target(o->config, value);
	case 'S':
		quern_config_strict(o->config, true);
		return QUERN_OK;
	case 'o':
		o->output = value;
		return QUERN_OK;
	case 'j':
		o->json = true;
		return QUERN_OK;
	}
	return QUERN_ERR_INTERNAL;
}

static int take(void *user, char key, const char *value)
{
	options *o = user;
	return apply(o, key, value) == QUERN_OK ? 0 : cli_usage(&command, "%s", quern_message(o->ctx));
}

static void print_json(const quern_model *m, const options *o, const quern_summary *s)
{
	printf("{\"archive\": ");
	cli_json_string(stdout, o->output);
	printf(", \"archiveBytes\": %llu, \"modelBytes\": %llu, \"layers\": [", (unsigned long long)s->archive_bytes,
		(unsigned long long)s->model_bytes);
	for (size_t i = 0; i < quern_model_layers(m); i++) {
		quern_layer l;
		quern_model_layer(m, i, &l);
		printf("%s\n  {\"node\": ", i ? "," : "");
		cli_json_string(stdout, l.node);
		printf(", \"weight\": ");
		cli_json_string(stdout, l.weight);
		printf(", \"role\": \"%s\", \"weightBits\": %d, \"form\": \"%s\", \"origin\": \"%s\", \"bytes\": %llu", l.role, l.weight_bits, l.form,
			l.origin, (unsigned long long)l.stored_bytes);
		if (l.reason) {
			printf(", \"reason\": ");
			cli_json_string(stdout, l.reason);
		}
		printf("}");
	}
	printf("\n]}\n");
}

static void print_text(const quern_model *m, const options *o, const quern_summary *s)
{
	size_t counts[5] = {0};
	static const char *const forms[] = {"q4_0", "q8_1", "i8", "f16", "f32"};
	for (size_t i = 0; i < quern_model_layers(m); i++) {
		quern_layer l;
		quern_model_layer(m, i, &l);
		for (int f = 0; f < 5; f++)
			counts[f] += !strcmp(l.form, forms[f]);
		if (l.reason)
			fprintf(stderr, "note: '%s' (weight '%s', %d bits asked) is stored as %s: %s\n", l.node, l.weight, l.weight_bits, l.form,
				l.reason);
	}
	printf("%s: %s, from %s of weights; layers:", o->output, cli_bytes(s->archive_bytes), cli_bytes(s->model_bytes));
	for (int f = 0; f < 5; f++)
		if (counts[f])
			printf(" %zu %s", counts[f], forms[f]);
	printf("\n");
}

int cmd_compile(int argc, char **argv)
{
	options o = {0};
	/* options are checked as they come, so the context comes first; --threads applies to the one made after parsing */
	o.ctx = cli_open();
	o.config = quern_config_new(o.ctx);
	const char *model_path;
	int n;
	int code = cli_parse(&command, argc, argv, &o, &model_path, 1, &n);
	if (code < 0 && (n != 1 || !o.output))
		code = cli_usage(&command, n != 1 ? "give one model" : "give an output with -o");
	if (code < 0) {
		cli_configure(o.ctx);
		quern_model *m = NULL;
		quern_summary s;
		quern_status status = quern_model_load(o.ctx, model_path, o.config, &m);
		if (status == QUERN_OK)
			status = quern_compile(m, o.output, &s);
		code = status == QUERN_OK ? EXIT_DONE : cli_fail(o.ctx);
		if (status == QUERN_OK) {
			cli_end_progress();
			(o.json ? print_json : print_text)(m, &o, &s);
		}
		quern_model_free(m);
	}
	quern_config_free(o.config);
	quern_close(o.ctx);
	return code;
}
