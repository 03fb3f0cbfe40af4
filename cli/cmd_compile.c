/* cmd_compile.c - quern compile */
#include "cli/compile_options.h"

#include <string.h>

typedef struct options {
	quern_context *ctx;
	quern_config *config;
	const char *output;
	bool json, print_config;
} options;

static const cli_option option_list[] = {
	{"o", "OUT", "OUT.nnef.tgz, OUT.nnef.tar, or a folder", 'o'},
	{"report", "FILE", "write a report: FILE.html to look at, or FILE.json with the same data", 'R'},
	{"json", NULL, "print the result as JSON", 'j'},
	{"print-config", NULL, "print the configuration that the options and files give, as JSON, and do nothing else", 'P'},
	{0},
};

static int take(void *user, char key, const char *value);
static const cli_command command = {"compile MODEL.onnx -o OUT [options]",
	"Compiles an ONNX transformer into a quantized NNEF archive for tract. Without options: Q4_0 weights in every layer with a role.", option_list,
	compile_options, NULL, take};

static int take(void *user, char key, const char *value)
{
	options *o = user;
	if (key == 'o')
		o->output = value;
	else if (key == 'j')
		o->json = true;
	else if (key == 'P')
		o->print_config = true;
	else if (key == 'R')
		return quern_config_report(o->config, value) == QUERN_OK ? 0 : cli_usage(&command, "%s", quern_message(o->ctx));
	else
		return compile_option_take(&command, o->ctx, o->config, key, value);
	return 0;
}

static void print_json(const quern_model *m, const options *o, const quern_summary *s)
{
	cli_json_member("{", "archive", o->output);
	printf(", \"archiveBytes\": %llu, \"modelBytes\": %llu, \"layers\": [", (unsigned long long)s->archive_bytes,
		(unsigned long long)s->model_bytes);
	for (size_t i = 0; i < quern_model_layers(m); i++) {
		quern_layer l;
		quern_model_layer(m, i, &l);
		cli_json_member(i ? ",\n  {" : "\n  {", "node", l.node);
		cli_json_member(", ", "weight", l.weight);
		printf(", \"role\": \"%s\", \"weightBits\": %d, \"actBits\": %d, \"form\": \"%s\", \"origin\": \"%s\", \"bytes\": %llu", l.role, l.weight_bits,
			l.act_bits, l.form, l.origin, (unsigned long long)l.stored_bytes);
		cli_json_member(", ", "reason", l.reason);
		cli_json_member(", ", "actReason", l.act_reason);
		if (l.rounding)
			printf(", \"rounding\": \"%s\"", l.rounding);
		cli_json_member(", ", "roundingNote", l.rounding_note);
		printf("}");
	}
	printf("\n]");
	for (size_t i = 0; i < quern_model_equalizations(m); i++) {
		quern_equalization e;
		quern_model_equalization(m, i, &e);
		cli_json_member(i ? ",\n  {" : ", \"equalization\": [\n  {", "tensor", e.tensor);
		cli_json_member(", ", "source", e.source);
		printf(", \"layers\": %zu, \"folded\": %s", e.layers, e.why ? "false" : "true");
		if (e.error >= 0)
			printf(", \"error\": %.6g", e.error);
		cli_json_member(", ", "why", e.why);
		printf("}");
	}
	printf("%s}\n", quern_model_equalizations(m) ? "\n]" : "");
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
		if (!l.rounding && l.rounding_note)
			fprintf(stderr, "note: '%s' (weight '%s') keeps plain rounding: %s\n", l.node, l.weight, l.rounding_note);
	}
	printf("%s: %s, from %s of weights; layers:", o->output, cli_bytes(s->archive_bytes), cli_bytes(s->model_bytes));
	for (int f = 0; f < 5; f++)
		if (counts[f])
			printf(" %zu %s", counts[f], forms[f]);
	printf("\n");
}

static int print_config(const options *o)
{
	const char *json;
	if (quern_config_write(o->config, &json) != QUERN_OK)
		return cli_fail(o->ctx);
	fputs(json, stdout);
	return EXIT_DONE;
}

int cmd_compile(int argc, char **argv)
{
	options o = {0};
	/* options are checked as they come, so the context comes first; --threads applies to the one made after parsing */
	o.ctx = cli_open();
	o.config = quern_config_new(o.ctx);
	const char *model_path;
	int n;
	int code = compile_options_parse(&command, argc, argv, &o, &model_path, 1, &n);
	if (code < 0 && o.print_config)
		code = print_config(&o);
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
