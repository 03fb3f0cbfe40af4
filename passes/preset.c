/* preset.c - the presets, as measured: docs/presets.md. */
#include "passes/preset.h"

const char *const qn_preset_names[QN_PRESET_COUNT] = {"", "small", "balanced", "accurate"};

/* query key value output ffn head, then tables */
static const int widths[QN_PRESET_COUNT][QN_CONFIG_ROLES + 1] = {
	[QN_PRESET_NONE] = {4, 4, 4, 4, 4, 4, 16},
	[QN_PRESET_SMALL] = {4, 4, 4, 4, 4, 4, 4},
	[QN_PRESET_BALANCED] = {4, 4, 8, 8, 4, 8, 8},
	[QN_PRESET_ACCURATE] = {8, 8, 8, 8, 8, 8, 8},
};

int qn_preset_weight_bits(int preset, int role) { return widths[preset][role]; }
int qn_preset_embedding_bits(int preset) { return widths[preset][QN_CONFIG_ROLES]; }
