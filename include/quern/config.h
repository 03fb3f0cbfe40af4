/* config.h - what a compile is asked to do: widths by role and by layer, calibration, target. Included by quern.h.
 *
 * A configuration starts with the defaults; every setter checks its value and fails with QUERN_ERR_CONFIG and a message that
 * names the field, the value and the allowed range. Names of layers are checked against the model when it is compiled. */
#ifndef QUERN_CONFIG_H
#define QUERN_CONFIG_H

typedef struct quern_context quern_context;
typedef struct quern_config quern_config;

/* Owned by the caller until quern_config_free. NULL only when the heap is exhausted. */
QUERN_API quern_config *quern_config_new(quern_context *ctx);
QUERN_API void quern_config_free(quern_config *config);

/* "4", or by role: "ffn=4,head=8". Roles: query key value output ffn head. 1..32 bits. */
QUERN_API quern_status quern_config_bits(quern_config *config, const char *spec);
QUERN_API quern_status quern_config_act_bits(quern_config *config, const char *spec);
/* "NAME=WEIGHT" or "NAME=WEIGHT/ACT"; the last '=' separates. NAME: the ONNX name of a layer's node, weight or output, whole, or a path of
 * components (separated by '/' or '.') in which '*' and '?' match within a component and a last '*' matches all that follows. */
QUERN_API quern_status quern_config_layer(quern_config *config, const char *pin);
QUERN_API quern_status quern_config_weight_16bits(quern_config *config, const char *name);
QUERN_API quern_status quern_config_activation_16bits(quern_config *config, const char *name);
QUERN_API quern_status quern_config_embedding_bits(quern_config *config, int bits);
/* minmax, signed, mse, importance */
QUERN_API quern_status quern_config_rounding(quern_config *config, const char *name);
/* Of minmax: 0 < percentile <= 1. */
QUERN_API quern_status quern_config_percentile(quern_config *config, double percentile);
/* tract or khronos */
QUERN_API quern_status quern_config_target(quern_config *config, const char *name);
/* "SYMBOL=N": binds a dynamic dim by its original text; the last '=' separates. */
QUERN_API quern_status quern_config_set_symbol(quern_config *config, const char *binding);
/* What cannot be done as asked is an error instead of a wider form. */
QUERN_API void quern_config_strict(quern_config *config, bool strict);
QUERN_API void quern_config_dynamic_activations(quern_config *config, bool on);

#endif
