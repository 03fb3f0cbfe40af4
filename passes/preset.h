/* preset.h - named sets of widths, for what the user does not say. */
#ifndef QN_PRESET_H
#define QN_PRESET_H

#include "passes/config.h"

typedef enum qn_preset { QN_PRESET_NONE, QN_PRESET_SMALL, QN_PRESET_BALANCED, QN_PRESET_ACCURATE, QN_PRESET_COUNT } qn_preset;

extern const char *const qn_preset_names[QN_PRESET_COUNT]; /* "" for none */
/* Weight width of a role (0..QN_CONFIG_ROLES) and of embedding tables. */
int qn_preset_weight_bits(int preset, int role);
int qn_preset_embedding_bits(int preset);

#endif
