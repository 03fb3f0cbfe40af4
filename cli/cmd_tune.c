/* cmd_tune.c - quern tune */
#include "cli/compile_options.h"

#include <math.h>
#include <string.h>

typedef struct options {
	quern_context *ctx;
	quern_config *config;
	quern_tune_options tune;
	const char *output;
	bool json;
} options;

static const cli_option option_list[] = {
	{"o", "ALLOC.json", "the allocation file, for compile --load-bits", 'o'},
	{"max-size", "BYTES", "the most that weights and constants may take in the archive: 30000000, or with a unit: 30MB, 28MiB", '1'},
	{"max-bits", "B", "the most bits a weight, mean over the layers with a role, scales included (Q4_0 alone is 4.5)", '2'},
	{"min-cosine", "C", "the least cosine of each output with float, as eval prints it; what is chosen is compiled and executed", '3'},
	{"act", NULL, "tune activations too: 8 bits (faster) or 16 where the weight gets int8", 'V'},
	{"act-share", "S", "how much error 8-bit activations may add, for each part that the weights have (default 1)", 'W'},
	{"embeddings", NULL, "tune embedding tables too (else they keep --embedding-bits)", '4'},
	{"check", "PATH", "samples to execute allocations on (default: those of --calib, which gptq has seen)", '5'},
	{"check-points", "N", "compile and execute N points of the curve as well (default 0)", '6'},
	{"state", "FILE", "keep the measured errors there (default: ALLOC.json.partial, gone when done)", '7'},
	{"curve", "FILE", "write all that was measured and the curve of size against error, as JSON", '8'},
	{"report", "FILE", "write a report on what was chosen: FILE.html to look at, or FILE.json with the same data", 'R'},
	{"json", NULL, "print what --curve writes", '9'},
	{0},
};

/* load-bits, save-bits and target: a tuning reads no allocation, writes the one of -o, and is for the target that has quantized weights. */
static const char without[] = "LBt";

static int take(void *user, char key, const char *value);
static const cli_command command = {"tune MODEL.onnx -o ALLOC.json --calib SAMPLES (--max-size BYTES | --max-bits B | --min-cosine C) [compile options]",
	"Finds the width of each layer, 4, 8 or 16 bits, that makes the best of a size or the least of an accuracy. What a layer costs is measured on\n"
	"the outputs, with only that layer quantized. With --act, layers that get int8 weights get activations of 8 or 16 bits too. Widths given by --bits,\n"
	"--layer, --weight-16bits, --act-bits and --activation-16bits stay. Rounding is gptq unless --rounding says otherwise. An interrupted tuning goes on\n"
	"when the same command is given again.",
	option_list, compile_options, without, take};

/* A number with an optional unit; 0: it is none over 0. */
static double size_of(const char *s)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = {{"", 1}, {"B", 1}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
	const char *end;
	double v = cli_number(s, &end);
	while (end != s && *end == ' ')
		end++;
	for (size_t i = 0; i < sizeof units / sizeof *units && end != s; i++)
		if (!strcmp(end, units[i].name))
			return v * units[i].bytes >= 1 && v * units[i].bytes < 9e15 ? v * units[i].bytes : 0;
	return 0;
}

static int take(void *user, char key, const char *value)
{
	options *o = user;
	double number;
	switch (key) {
	case 'o':
		o->output = value;
		return 0;
	case '1':
		number = size_of(value);
		o->tune.max_bytes = (uint64_t)number;
		return number > 0 ? 0 : cli_usage(&command, "--max-size: '%s' is no size such as 30000000, 30MB or 28MiB", value);
	case '2':
		o->tune.max_bits = cli_only_number(value);
		return o->tune.max_bits > 0 ? 0 : cli_usage(&command, "--max-bits: '%s' is no number over 0", value);
	case '3':
		o->tune.min_cosine = cli_only_number(value);
		return o->tune.min_cosine > 0 && o->tune.min_cosine < 1 ? 0 : cli_usage(&command, "--min-cosine: '%s' is no number between 0 and 1", value);
	case 'V':
		o->tune.activations = true;
		return 0;
	case 'W':
		o->tune.act_share = cli_only_number(value);
		return o->tune.act_share > 0 && o->tune.act_share <= 1000 ? 0 : cli_usage(&command, "--act-share: '%s' is no number over 0 and at most 1000", value);
	case '4':
		o->tune.embeddings = true;
		return 0;
	case '5':
		o->tune.check_samples = value;
		return 0;
	case '6':
		number = cli_only_number(value);
		o->tune.checks = number >= 0 && number <= 1000 ? (int)number : -1;
		return (double)o->tune.checks >= number ? 0 : cli_usage(&command, "--check-points: '%s' is no whole number from 0 to 1000", value);
	case '7':
		o->tune.state = value;
		return 0;
	case '8':
		o->tune.curve = value;
		return 0;
	case 'R':
		return quern_config_report(o->config, value) == QUERN_OK ? 0 : cli_usage(&command, "%s", quern_message(o->ctx));
	case '9':
		o->json = true;
		return 0;
	}
	return compile_option_take(&command, o->ctx, o->config, key, value);
}

static void print_point(const quern_tuning_point *p)
{
	printf("%10s  %6.3f  %11.3e", cli_bytes(p->bytes), p->bits, p->error);
	if (isfinite(p->measured))
		printf("  %11.3e", p->measured);
	else
		printf("  %11s", "");
	if (p->changed)
		printf("  %2d  %s", p->weight_bits, p->changed);
	printf("\n");
}

static void print_text(const options *o, const quern_tuning *t)
{
	quern_tuning_summary s;
	quern_tuning_get(t, &s);
	bool kl = !strcmp(s.measure, "kl");
	printf("%zu sample%s; errors are %s. The curve, each point wider in one layer than the one before:\n", s.samples, s.samples == 1 ? "" : "s",
		kl ? "bits of divergence a row of logits" : "1 - cosine");
	printf("%10s  %6s  %11s  %11s  %s\n", "bytes", "bits", "modelled", "executed", "now has / layer");
	for (size_t i = 0; i < quern_tuning_points(t); i++) {
		quern_tuning_point p;
		quern_tuning_at(t, i, &p);
		print_point(&p);
	}
	printf("%s: %s, %.3f bits a weight, modelled error %.3e", o->output, cli_bytes(s.chosen.bytes), s.chosen.bits, s.chosen.error);
	if (isfinite(s.chosen.measured))
		printf(", executed %.3e", s.chosen.measured);
	if (s.gap > 0)
		printf(", at most %.1e over the least", s.gap);
	printf("; layers: %zu of 4 bits, %zu of 8, %zu of 16, %zu fixed", s.layers[0], s.layers[1], s.layers[2], s.fixed);
	if (o->tune.activations)
		printf("; activations: %zu of 8 bits, %zu of 16, which add %.3e; %.0f %% of the multiply-adds in 8-bit integers", s.act_layers[0], s.act_layers[1],
			s.act_error, 100 * s.narrow);
	printf("\n");
}

int cmd_tune(int argc, char **argv)
{
	options o = {0};
	o.ctx = cli_open();
	o.config = quern_config_new(o.ctx);
	const char *model;
	int n;
	int code = compile_options_parse(&command, argc, argv, &o, &model, 1, &n);
	if (code < 0 && (n != 1 || !o.output))
		code = cli_usage(&command, n != 1 ? "give one model" : "give the allocation file with -o");
	if (code < 0 && o.tune.act_share > 0 && !o.tune.activations)
		code = cli_usage(&command, "--act-share is of activations: give --act too");
	if (code < 0 && (o.tune.max_bytes > 0) + (o.tune.max_bits > 0) + (o.tune.min_cosine > 0) != 1)
		code = cli_usage(&command, "give one of --max-size, --max-bits and --min-cosine");
	if (code < 0) {
		cli_configure(o.ctx);
		quern_tuning *t = NULL;
		code = EXIT_DONE;
		if (quern_tune(o.ctx, model, o.config, &o.tune, o.output, &t) != QUERN_OK) {
			code = cli_fail(o.ctx);
		} else {
			cli_end_progress();
			if (o.json)
				fputs(quern_tuning_json(t), stdout);
			else
				print_text(&o, t);
		}
		quern_tuning_free(t);
	}
	quern_config_free(o.config);
	quern_close(o.ctx);
	return code;
}
