/* config_fields.c - the list, in the order in which it is written and documented. */
#include "passes/config_fields.h"

#include <math.h>

const char *const qn_part_names[QN_PART_COUNT] = {"calibration", "bit", "gptq"};

#define AT(member) offsetof(quern_config, member)
#define CALIBRATION(kind, snake, json, member, initial, low, high, help)                                                                             \
	{QN_PART_CALIBRATION, snake, json, QN_FIELD_##kind, AT(calibration.member), initial, low, high, help}
#define BIT(kind, snake, json, member, initial, low, high, help) {QN_PART_BIT, snake, json, QN_FIELD_##kind, AT(member), initial, low, high, help}
#define GPTQ(kind, name, initial, low, high, help) {QN_PART_GPTQ, #name, #name, QN_FIELD_##kind, AT(gptq.name), initial, low, high, help}
/* role, its place among the roles, default activation width */
#define ACT(role, i, bits)                                                                                                                           \
	BIT(INT, #role "_act_bits", #role "ActBits", act_bits[i], bits, 1, INFINITY, "width of the activation that the " #role " product reads")
#define WEIGHT(role, i) BIT(INT, #role "_weight_bits", #role "WeightBits", weight_bits[i], 8, 1, INFINITY, "width of the " #role " weights")

/* Every tensor that is calibrated has its own. */
enum { MOST_BINS = 100000, MOST_POOL = 500000 };

const qn_field qn_fields[] = {
	CALIBRATION(INT, "quantization_method", "method", method, 1, 0, 3,
		"activations: 0 one scale a tensor, 1 a scale for each channel, folded into the weights, 2 and 3 the same two with a zero point"),
	CALIBRATION(INT, "quantization_output", "output", output, 0, 0, 2,
		"scales of graph outputs: 0 one a tensor, 1 one a channel, 2 the fixed range of a sigmoid"),
	CALIBRATION(INT, "quantization_mode", "mode", mode, QN_CALIB_PERCENTILE, 0, 2, "range estimator: 0 max, 1 maxPercentile, 2 histogram"),
	CALIBRATION(NUMBER, "percentile", "maxPercentile.percentile", percentile, 0.9999, 0, 1,
		"the range is this quantile of the pool of collected magnitudes"),
	CALIBRATION(NUMBER, "topk_ratio", "maxPercentile.topKRatio", topk_ratio, 0.01, 0, 1,
		"share of its largest magnitudes that each sample gives to the pool"),
	CALIBRATION(INT, "max_each", "maxPercentile.maxEach", max_each, 128, 0, MOST_POOL, "most that one sample gives; its largest is always kept"),
	CALIBRATION(INT, "max_total", "maxPercentile.maxTotal", max_total, 65536, 0, MOST_POOL, "most that the pool holds"),
	CALIBRATION(NUMBER, "hist_percentile", "histogram.percentile", hist_percentile, 0.9999, 0, 1, "quantile of search type 0"),
	CALIBRATION(BOOL, "hist_use_gpu", "histogram.useGPU", hist_use_gpu, 1, 0, 1, "accepted; the work is done on the CPU"),
	CALIBRATION(INT, "hist_num_bins", "histogram.numBins", hist_num_bins, 2048, 1, MOST_BINS,
		"bins over magnitudes; the range doubles when a larger value comes"),
	CALIBRATION(INT, "hist_num_samples", "histogram.numSamples", hist_num_samples, 1024, 1, INFINITY,
		"representative values kept for the MSE and KL metrics"),
	CALIBRATION(INT, "hist_buffer_size", "histogram.bufferSize", hist_buffer_size, 1024, 1, INFINITY, "values buffered before a batch update"),
	CALIBRATION(NUMBER, "hist_min_bin_width", "histogram.minBinWidth", hist_min_bin_width, 1e-4, 0, INFINITY, "bins are never narrower"),
	CALIBRATION(NUMBER, "hist_search_percentile_min", "histogram.searchPercentileMin", hist_search_percentile_min, 0.9999, 0, 1,
		"lower end of the span that MSE and KL search"),
	CALIBRATION(NUMBER, "hist_search_percentile_max", "histogram.searchPercentileMax", hist_search_percentile_max, 0.999999, 0, 1,
		"upper end of that span"),
	CALIBRATION(INT, "hist_num_search", "histogram.numSearch", hist_num_search, 1024, 1, INFINITY, "candidates tried"),
	CALIBRATION(INT, "hist_search_type", "histogram.searchType", hist_search_type, 0, 0, 2, "what is searched for: 0 percentile, 1 mse, 2 kl"),
	CALIBRATION(NUMBER, "act_scale_min", "actScaleMin", act_scale_min, 5e-4, 0, 1, "lower bound of an activation scale"),
	CALIBRATION(NUMBER, "weight_scale_min", "weightScaleMin", weight_scale_min, 1e-6, 0, 1, "lower bound of a weight scale"),
	CALIBRATION(NUMBER, "min_clip_ratio", "minclipRatio", min_clip_ratio, -1, -1, 1,
		"a chosen range is never below this share of the seen maximum; -1 turns it off"),
	CALIBRATION(OVERRIDES, "layer_overrides", "layerOverrides", overrides, 0, 0, 0,
		"actScaleMin, weightScaleMin or minclipRatio -> value -> layers that use that value instead"),
	CALIBRATION(BOOL, "quantize_outputs", "quantizeOutputs", quantize_outputs, 0, 0, 1, "graph outputs are rounded to the 8-bit codes of their scales, in f32"),
	ACT(query, 0, 8),
	ACT(key, 1, 8),
	ACT(value, 2, 8),
	ACT(output, 3, 16),
	ACT(ffn, 4, 16),
	ACT(head, 5, 8),
	WEIGHT(query, 0),
	WEIGHT(key, 1),
	WEIGHT(value, 2),
	WEIGHT(output, 3),
	WEIGHT(ffn, 4),
	WEIGHT(head, 5),
	BIT(BOOL, "mixed_precision_apply", "mixedPrecisionApply", mixed_precision, 0, 0, 1,
		"true: the widths above apply by role; false: Q4_0 weights and float activations in every layer with a role"),
	BIT(PRESET, "preset", "preset", preset, 0, 0, 0, "small, balanced or accurate: widths where none are given, and the rounding"),
	BIT(PATH, "save_path", "savePath", save_path, 0, 0, 0, "write the resolved allocation to this file"),
	BIT(PATH, "load_path", "loadPath", load_path, 0, 0, 0, "start from the allocation in this file"),
	BIT(NAMES, "activation_16bits", "activation16Bits", act_16, 0, 0, 0, "layers whose activation is forced to 16 bits"),
	BIT(NAMES, "weight_16bits", "weight16Bits", weight_16, 0, 0, 0, "layers whose weights are forced to 16 bits"),
	BIT(INT, "embedding_weight_bits", "embeddingWeightBits", embedding_bits, 16, 1, INFINITY, "width of embedding tables"),
	BIT(BOOL, "dynamic_activations", "dynamicActivations", dynamic_activations, 0, 0, 1,
		"activations of up to 8 bits get a scale for each row at run time"),
	BIT(BOOL, "equalize", "equalize", equalize, 0, 0, 1, "channels are scaled where that costs nothing, so that weights round better"),
	BIT(LAYERS, "layers", "layers", pins, 0, 0, 0, "layer -> {\"weightBits\": W, \"actBits\": A}: widths pinned layer by layer"),
	GPTQ(NUMBER, damping, 0, 0, INFINITY, "share of the diagonal, and of its mean, that is added to the second moment; 0: by the number of rows"),
	GPTQ(NUMBER, alpha, 0, 0, 1, "share of the earlier layers' error that targets make good; 0: by the number of samples"),
	GPTQ(BOOL, centre, 1, 0, 1, "moments of centred inputs; biases make the mean error good"),
	GPTQ(BOOL, sequential, 1, 0, 1, "inputs of the network as it is rounded so far, else of the float network"),
	GPTQ(BOOL, compensate, 1, 0, 1, "targets make the error of earlier layers good"),
	GPTQ(BOOL, residual, 1, 0, 1, "also that of the stream which a layer's result is added to"),
	GPTQ(BOOL, permute, 1, 0, 1, "hidden channels are sorted by the norm of the weights that read them"),
	GPTQ(BOOL, trial, 1, 0, 1, "scales of blocks by trial, else by squared error weighted with the diagonal"),
	GPTQ(INT, descents, 3, 0, INFINITY, "passes of block coordinate descent, at most"),
	GPTQ(INT, copies, -1, -1, INFINITY, "varied copies of each sample of token ids; -1: as many as help"),
};
const size_t qn_field_count = QN_LEN(qn_fields);

/* `name` is what follows the group in `path`. */
static bool is_path(const char *path, const char *group, const char *name)
{
	size_t n = strlen(group);
	if (n && (strncmp(path, group, n) || path[n] != '.'))
		return false;
	return !strcmp(path + (n ? n + 1 : 0), name);
}

const qn_field *qn_field_find(qn_config_part part, const char *group, const char *name)
{
	for (size_t i = 0; i < qn_field_count; i++)
		if (qn_fields[i].part == part && is_path(qn_fields[i].json, group, name))
			return &qn_fields[i];
	for (size_t i = 0; i < qn_field_count && !*group; i++)
		if (qn_fields[i].part == part && !strcmp(qn_fields[i].snake, name))
			return &qn_fields[i];
	return NULL;
}

const char *qn_field_range(qn_arena *a, const qn_field *f)
{
	switch (f->kind) {
	case QN_FIELD_BOOL:
		return "true or false";
	case QN_FIELD_PATH:
		return "a file name";
	case QN_FIELD_NAMES:
		return "a list of layers";
	case QN_FIELD_PRESET:
		return "a preset's name";
	case QN_FIELD_OVERRIDES:
	case QN_FIELD_LAYERS:
		return "an object";
	case QN_FIELD_INT:
	case QN_FIELD_NUMBER:
		break;
	}
	return isinf(f->high) ? qn_arena_printf(a, "%g or more", f->low) : qn_arena_printf(a, "%g..%g", f->low, f->high);
}

void qn_config_defaults(quern_config *c)
{
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		void *at = qn_field_at(c, f);
		if (f->kind == QN_FIELD_INT)
			*(int *)at = (int)f->initial;
		else if (f->kind == QN_FIELD_NUMBER)
			*(double *)at = f->initial;
		else if (f->kind == QN_FIELD_BOOL)
			*(bool *)at = f->initial != 0;
	}
	qn_calibration_config *k = &c->calibration;
	QN_GROW(&c->arena, k->overrides, k->n_overrides, k->cap_overrides);
	k->overrides[k->n_overrides++] = (qn_layer_override){.parameter = qn_override_names[0], .value = 5e-4};
}
