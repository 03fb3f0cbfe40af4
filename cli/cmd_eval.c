/* cmd_eval.c - quern eval */
#include "cli/compile_options.h"

#include <math.h>
#include <string.h>

typedef struct options {
	quern_context *ctx;
	quern_config *config;
	const char *samples, *outputs;
	bool json;
} options;

static const cli_option option_list[] = {
	{"eval", "PATH", "samples to evaluate on: a .npz, a folder of .npz (one a sample), or ONNX test_data_set folders", '1'},
	{"outputs", "OUT.npz", "write what the compiled graph gives for the first sample", '2'},
	{"report", "FILE", "write a report: FILE.html to look at, or FILE.json with the same data", '4'},
	{"json", NULL, "print the result as JSON", '3'},
	{0},
};

static int take(void *user, char key, const char *value);
static const cli_command command = {"eval MODEL.onnx --eval SAMPLES [compile options]",
	"Runs the model as it would be compiled, with the archive's arithmetic, beside the float model, and prints how far each output and each\n"
	"layer's result is from float: most damaged layers first.",
	option_list, compile_options, NULL, take};

static int take(void *user, char key, const char *value)
{
	options *o = user;
	if (key == '1')
		o->samples = value;
	else if (key == '2')
		o->outputs = value;
	else if (key == '3')
		o->json = true;
	else if (key == '4')
		return quern_config_report(o->config, value) == QUERN_OK ? 0 : cli_usage(&command, "%s", quern_message(o->ctx));
	else
		return compile_option_take(&command, o->ctx, o->config, key, value);
	return 0;
}

static void print_number(const char *name, double v)
{
	if (isfinite(v))
		printf(", \"%s\": %.9g", name, v);
	else
		printf(", \"%s\": null", name);
}

static void print_json_item(const quern_damage *d, bool first)
{
	printf("%s\n  {\"name\": ", first ? "" : ",");
	cli_json_string(stdout, d->name);
	printf(", \"value\": ");
	cli_json_string(stdout, d->value);
	if (!d->is_output)
		printf(", \"role\": \"%s\", \"form\": \"%s\", \"weightBits\": %d, \"actBits\": %d", d->role, d->form, d->weight_bits, d->act_bits);
	print_number("cosine", d->cosine);
	print_number("sqnrDb", d->sqnr_db);
	print_number("largestError", d->largest_error);
	if (d->kl_bits >= 0)
		print_number("klBits", d->kl_bits);
	printf("}");
}

static void print_json(const quern_evaluation *e)
{
	bool first = true, outputs = true;
	printf("{\"samples\": %zu, \"outputs\": [", quern_evaluation_samples(e));
	for (size_t i = 0; i < quern_evaluation_count(e); i++) {
		quern_damage d;
		quern_evaluation_get(e, i, &d);
		if (outputs && !d.is_output) {
			printf("],\n\"layers\": [");
			outputs = false;
			first = true;
		}
		print_json_item(&d, first);
		first = false;
	}
	printf("%s]}\n", outputs ? "],\n\"layers\": [" : "");
}

static void print_row(const quern_damage *d)
{
	char form[32] = "", act[16] = "float";
	if (!d->is_output) {
		if (d->act_bits <= 16)
			snprintf(act, sizeof act, "%d", d->act_bits);
		snprintf(form, sizeof form, "%s/%s", d->form, act);
	}
	if (isfinite(d->sqnr_db))
		printf("%9.6f %8.2f", d->cosine, d->sqnr_db);
	else
		printf("%9.6f %8s", d->cosine, "exact");
	printf(" %10.3g  %-11s %-9s %s", d->largest_error, form, d->role, d->name);
	if (d->kl_bits >= 0)
		printf("  (%.6f bits of divergence a row)", d->kl_bits);
	printf("\n");
}

static void print_text(const quern_evaluation *e)
{
	printf("%zu samples; graph outputs, then layers, most damaged first\n", quern_evaluation_samples(e));
	printf("%9s %8s %10s  %-11s %-9s %s\n", "cosine", "SQNR dB", "largest", "form/act", "role", "name");
	for (size_t i = 0; i < quern_evaluation_count(e); i++) {
		quern_damage d;
		quern_evaluation_get(e, i, &d);
		print_row(&d);
	}
}

int cmd_eval(int argc, char **argv)
{
	options o = {0};
	o.ctx = cli_open();
	o.config = quern_config_new(o.ctx);
	const char *model;
	int n;
	int code = compile_options_parse(&command, argc, argv, &o, &model, 1, &n);
	if (code < 0 && (n != 1 || !o.samples))
		code = cli_usage(&command, n != 1 ? "give one model" : "give samples with --eval");
	if (code < 0) {
		cli_configure(o.ctx);
		quern_evaluation *e = NULL;
		code = EXIT_DONE;
		if (quern_eval(o.ctx, model, o.config, o.samples, o.outputs, &e) != QUERN_OK) {
			code = cli_fail(o.ctx);
		} else {
			cli_end_progress();
			(o.json ? print_json : print_text)(e);
		}
		quern_evaluation_free(e);
	}
	quern_config_free(o.config);
	quern_close(o.ctx);
	return code;
}
