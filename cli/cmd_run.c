/* cmd_run.c - quern run */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

typedef struct options {
	const char *input, *output, *test_data;
	double rtol, atol;
} options;

static const cli_option option_list[] = {
	{"input", "IN.npz", "inputs by name", 'i'},
	{"o", "OUT.npz", "where the outputs go", 'o'},
	{"test-data-set", "DIR", "run input_N.pb of a folder and compare with its output_N.pb", 't'},
	{"rtol", "X", "relative tolerance of the comparison (default 1e-3)", 'r'},
	{"atol", "X", "absolute tolerance of the comparison (default 1e-5)", 'a'},
	{0},
};

static int take(void *user, char key, const char *value);
static const cli_command command = {"run MODEL.onnx (--input IN.npz -o OUT.npz | --test-data-set DIR)",
	"Runs the model in float on the CPU. With --test-data-set the exit status is 1 when an output differs.", option_list, NULL, NULL, take};

static int take(void *user, char key, const char *value)
{
	options *o = user;
	double *number = NULL;
	switch (key) {
	case 'i':
		o->input = value;
		break;
	case 'o':
		o->output = value;
		break;
	case 't':
		o->test_data = value;
		break;
	case 'r':
		number = &o->rtol;
		break;
	case 'a':
		number = &o->atol;
		break;
	}
	if (number)
		*number = cli_only_number(value);
	return number && isnan(*number) ? cli_usage(&command, "'%s' is no number", value) : 0;
}

int cmd_run(int argc, char **argv)
{
	options o = {.rtol = 1e-3, .atol = 1e-5};
	const char *model;
	int n;
	int code = cli_parse(&command, argc, argv, &o, &model, 1, &n);
	if (code >= 0)
		return code;
	if (n != 1 || !(o.test_data ? !o.input && !o.output : o.input && o.output))
		return cli_usage(&command, "give a model, and either --input with -o or --test-data-set");
	quern_context *ctx = cli_open();
	quern_runner *r;
	quern_status status = quern_runner_load(ctx, model, NULL, &r);
	if (status == QUERN_OK)
		status = o.test_data ? quern_run_test_data(r, o.test_data, o.rtol, o.atol) : quern_run_npz(r, o.input, o.output);
	code = status == QUERN_OK ? EXIT_DONE : cli_fail(ctx);
	quern_runner_free(r);
	quern_close(ctx);
	return code;
}
