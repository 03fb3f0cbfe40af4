/* compile_options.c - the options that say how a model is compiled, for every command that compiles or evaluates one. */
#include "cli/compile_options.h"

#include <math.h>
#include <stdlib.h>

const cli_option compile_options[] = {
	{"config", "FILE", "merge a JSON configuration (repeatable); other options win over it, wherever they stand", 'C'},
	{"preset", "NAME", "small, balanced or accurate: widths and rounding for what other options do not say", 'z'},
	{"bits", "SPEC", "weight bits: 4, or by role: ffn=4,head=8 (default 4 in every layer with a role)", 'b'},
	{"layer", "NAME=W[/A]", "pin weight (and activation) bits of the layers of that name or glob (repeatable)", 'l'},
	{"weight-16bits", "NAME", "16-bit weights for the layers of that name or glob (repeatable)", 'w'},
	{"embedding-bits", "N", "bits of embedding tables (default 16; 4: Q4_0, 8: Q8_1)", 'e'},
	{"act-bits", "SPEC", "activation bits: 8, or by role: ffn=16,query=8 (default: float)", 'a'},
	{"activation-16bits", "NAME", "16-bit activations for the layers of that name or glob (repeatable)", 'A'},
	{"dynamic-activations", NULL, "8-bit activations get a scale for each row at run time: no samples needed", 'd'},
	{"method", "N", "of activations: 0 one scale a tensor, 1 balanced channels (default), 2 and 3 the same with a zero point", 'M'},
	{"mode", "MODE", "of ranges: max, maxPercentile (default), histogram, histogram-mse, histogram-kl", 'm'},
	{"calib", "PATH", "samples: a .npz, a folder of .npz (one a sample), or ONNX test_data_set folders", 'c'},
	{"rounding", "R", "of Q4_0: mse (default), signed (ggml's), minmax (torch_to_nnef's), importance, gptq (these two need --calib)", 'r'},
	{"equalize", NULL, "scale channels into norms and weights where that costs nothing and lowers rounding errors", 'E'},
	{"percentile", "P", "of minmax: quantile of the magnitudes that sets a scale, 0 < P <= 1", 'p'},
	{"load-bits", "FILE", "start from the widths and scales of this allocation", 'L'},
	{"save-bits", "FILE", "write the resulting widths and scales to this file", 'B'},
	{"set", "SYMBOL=N", "bind a dynamic dim by its original text (repeatable)", 's'},
	{"target", "T", "tract (default) or khronos", 't'},
	{"strict", NULL, "fail where a layer cannot have what was asked, instead of a wider form", 'S'},
	{0},
};

static int as_int(const char *s)
{
	long v = strtol(s, NULL, 10);
	return v < -1000000 || v > 1000000 ? -1 : (int)v;
}

/* What the option's value has to be where that is a number and `value` is none; else NULL. */
static const char *number_wanted(char key, const char *value)
{
	char *end;
	if (key == 'p')
		return isnan(cli_only_number(value)) ? "number above 0 and up to 1" : NULL;
	if (key == 'e' || key == 'M')
		strtol(value, &end, 10);
	else
		return NULL;
	if (*value && !*end)
		return NULL;
	return key == 'e' ? "whole number from 1 to 32" : "whole number from 0 to 3";
}

static const char *option_name(char key)
{
	const cli_option *o = compile_options;
	while (o->key != key)
		o++;
	return o->name;
}

static quern_status apply(quern_config *config, char key, const char *value)
{
	switch (key) {
	case 'C':
		return quern_config_read(config, value);
	case 'L':
		return quern_config_load_bits(config, value);
	case 'B':
		return quern_config_save_bits(config, value);
	case 'z':
		return quern_config_preset(config, value);
	case 'b':
		return quern_config_bits(config, value);
	case 'l':
		return quern_config_layer(config, value);
	case 'w':
		return quern_config_weight_16bits(config, value);
	case 'e':
		return quern_config_embedding_bits(config, as_int(value));
	case 'a':
		return quern_config_act_bits(config, value);
	case 'A':
		return quern_config_activation_16bits(config, value);
	case 'd':
		quern_config_dynamic_activations(config, true);
		return QUERN_OK;
	case 'E':
		quern_config_equalize(config, true);
		return QUERN_OK;
	case 'M':
		return quern_config_method(config, as_int(value));
	case 'm':
		return quern_config_mode(config, value);
	case 'c':
		return quern_config_calibration(config, value);
	case 'r':
		return quern_config_rounding(config, value);
	case 'p':
		return quern_config_percentile(config, cli_only_number(value));
	case 's':
		return quern_config_set_symbol(config, value);
	case 't':
		return quern_config_target(config, value);
	case 'S':
		quern_config_strict(config, true);
		return QUERN_OK;
	}
	return QUERN_ERR_INTERNAL;
}

static bool reading_files; /* else all other options */

int compile_option_take(const cli_command *c, quern_context *ctx, quern_config *config, char key, const char *value)
{
	if ((key == 'C') != reading_files)
		return 0;
	const char *wanted = number_wanted(key, value);
	if (wanted)
		return cli_usage(c, "%s: '%s' is no %s", option_name(key), value, wanted);
	if (apply(config, key, value) == QUERN_OK)
		return 0;
	return key == 'C' ? cli_fail(ctx) : cli_usage(c, "%s", quern_message(ctx));
}

int compile_options_parse(const cli_command *c, int argc, char **argv, void *user, const char **args, int max_args, int *n_args)
{
	reading_files = true;
	int code = cli_parse(c, argc, argv, user, args, max_args, n_args);
	reading_files = false;
	return code < 0 ? cli_parse(c, argc, argv, user, args, max_args, n_args) : code;
}
