/* cmd_tensor.c - quern tensor */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
	quern_convert_options convert;
	const char *output;
	bool json;
} options;

static const cli_option option_list[] = {
	{"o", "OUT.dat", "the file to write", 'o'},
	{"format", "F", "q4_0 (default), q4_0-legacy, q8_1, i8, f16, f32", 'f'},
	{"rounding", "R", "of q4_0: signed (default), minmax, mse", 'r'},
	{"percentile", "P", "of minmax: the scale covers this share of a block's magnitudes", 'p'},
	{"bits", "N", "2^N levels within the format: q4_0 1..4, i8 2..8", 'b'},
	{"json", NULL, "print the summary as JSON", 'j'},
	{0},
};

static int take(void *user, char key, const char *value);
static const cli_command command = {"tensor IN.npy -o OUT.dat [--format F]",
	"Quantizes one float array to an NNEF tensor file. i8 writes its scales, one for each item of the first axis, to OUT.scale.dat.",
	option_list, NULL, NULL, take};

static int take(void *user, char key, const char *value)
{
	options *o = user;
	char *end = NULL;
	switch (key) {
	case 'o':
		o->output = value;
		break;
	case 'f':
		o->convert.format = value;
		break;
	case 'r':
		o->convert.rounding = value;
		break;
	case 'p':
		o->convert.percentile = cli_only_number(value);
		if (!(o->convert.percentile > 0 && o->convert.percentile <= 1))
			return cli_usage(&command, "--percentile: '%s' is no number above 0 and at most 1", value);
		break;
	case 'b': {
		long n = strtol(value, &end, 10);
		if (end == value || *end || n < 1 || n > 8)
			return cli_usage(&command, "--bits: '%s' is no number from 1 to 8", value);
		o->convert.bits = (int)n;
		break;
	}
	case 'j':
		o->json = true;
		break;
	}
	return 0;
}

static void print_json(const options *o, const quern_convert_summary *s)
{
	printf("{\"output\": ");
	cli_json_string(stdout, o->output);
	printf(", \"format\": \"%s\", \"rounding\": ", o->convert.format);
	if (!strncmp(o->convert.format, "q4_0", 4))
		printf("\"%s\"", o->convert.rounding ? o->convert.rounding : "signed");
	else
		printf("null");
	printf(", \"sourceType\": \"%s\", \"shape\": [", s->source_type);
	for (int i = 0; i < s->rank; i++)
		printf("%s%" PRId64, i ? ", " : "", s->shape[i]);
	printf("], \"sourceBytes\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"snrDb\": ", s->source_bytes, s->stored_bytes);
	if (isfinite(s->snr_db))
		printf("%.6g", s->snr_db);
	else
		printf("null");
	printf(", \"nonFinite\": %" PRId64 ", \"scales\": {\"count\": %" PRId64 ", \"min\": %.9g, \"max\": %.9g, \"subnormal\": %" PRId64
	       ", \"flushed\": %" PRId64 ", \"firstWeak\": %" PRId64 "}}\n",
		s->non_finite, s->scales.scales, (double)s->scales.scale_min, (double)s->scales.scale_max, s->scales.subnormal,
		s->scales.flushed, s->scales.first_weak);
}

static void print_text(const options *o, const quern_convert_summary *s)
{
	printf("%s: %s [", o->output, o->convert.format);
	for (int i = 0; i < s->rank; i++)
		printf("%s%" PRId64, i ? ", " : "", s->shape[i]);
	printf("] from %s, %s (was %s)", s->source_type, cli_bytes(s->stored_bytes), cli_bytes(s->source_bytes));
	if (isfinite(s->snr_db))
		printf(", SNR %.2f dB", s->snr_db);
	else if (isinf(s->snr_db))
		printf(", exact");
	if (s->scales.scale_max > 0)
		printf(", %s %g to %g", strcmp(o->convert.format, "f16") ? "scales" : "magnitudes", (double)s->scales.scale_min,
			(double)s->scales.scale_max);
	printf("%s\n", s->scales_written ? ", scales in a file beside it" : "");
}

int cmd_tensor(int argc, char **argv)
{
	options o = {0};
	const char *input;
	int n;
	quern_convert_defaults(&o.convert);
	int code = cli_parse(&command, argc, argv, &o, &input, 1, &n);
	if (code >= 0)
		return code;
	if (n != 1 || !o.output)
		return cli_usage(&command, "give one .npy file, and -o with the file to write");
	quern_context *ctx = cli_open();
	cli_configure(ctx);
	quern_convert_summary summary;
	quern_status status = quern_convert_npy(ctx, input, o.output, &o.convert, &summary);
	code = EXIT_DONE;
	if (status == QUERN_ERR_CONFIG)
		code = cli_usage(&command, "%s", quern_message(ctx));
	else if (status != QUERN_OK)
		code = cli_fail(ctx);
	else if (o.json)
		print_json(&o, &summary);
	else
		print_text(&o, &summary);
	quern_close(ctx);
	return code;
}
