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

/* Merges a JSON file {"calibration": {...}, "bit": {...}} into what is already set: objects key by key, everything else replaced. docs/config.md has every
 * field; schema/config.schema.json describes the file. A file that fails changes nothing. */
QUERN_API quern_status quern_config_read(quern_config *config, const char *path);
/* The same from a text; `name` is for messages. */
QUERN_API quern_status quern_config_parse(quern_config *config, const char *json, const char *name);
/* All fields as such a file, numbers so that they read back exactly; widths asked for by quern_config_bits and _act_bits are written as widths by role. The
 * text belongs to the configuration and lives as long as it. */
QUERN_API quern_status quern_config_write(quern_config *config, const char **json);

/* "4", or by role: "ffn=4,head=8". Roles: query key value output ffn head. 1..32 bits. */
QUERN_API quern_status quern_config_bits(quern_config *config, const char *spec);
QUERN_API quern_status quern_config_act_bits(quern_config *config, const char *spec);
/* small, balanced or accurate: widths of roles and tables for which none is asked, and, where no rounding is asked, gptq with samples and mse without.
 * docs/presets.md says what they are and what they cost. */
QUERN_API quern_status quern_config_preset(quern_config *config, const char *name);
/* "NAME=WEIGHT" or "NAME=WEIGHT/ACT"; the last '=' separates. NAME: the ONNX name of a layer's node, weight or output, whole, or a path of
 * components (separated by '/' or '.') in which '*' and '?' match within a component and a last '*' matches all that follows. */
QUERN_API quern_status quern_config_layer(quern_config *config, const char *pin);
QUERN_API quern_status quern_config_weight_16bits(quern_config *config, const char *name);
QUERN_API quern_status quern_config_activation_16bits(quern_config *config, const char *name);
QUERN_API quern_status quern_config_embedding_bits(quern_config *config, int bits);
/* Samples to calibrate on: a .npz, a folder of them (one sample each), or ONNX test_data_set folders. Read when the model is compiled. */
QUERN_API quern_status quern_config_calibration(quern_config *config, const char *path);
/* Of activations: 0 one scale a tensor, 1 balanced channels, 2 and 3 the same with a zero point. */
QUERN_API quern_status quern_config_method(quern_config *config, int method);
/* How ranges are estimated: max, maxPercentile, histogram, histogram-mse, histogram-kl. */
QUERN_API quern_status quern_config_mode(quern_config *config, const char *name);
/* Allocation files (docs/allocation.md): the widths and scales of a compile, saved when it succeeds; and such a file to start from. "": none. */
QUERN_API quern_status quern_config_save_bits(quern_config *config, const char *path);
QUERN_API quern_status quern_config_load_bits(quern_config *config, const char *path);
/* A report of what quern_compile or quern_eval does, NAME.html for people (one file that loads nothing) or NAME.json with the same data; "": none. With samples
 * (those of the calibration; quern_eval: its own) the compiled graph also runs beside the float one, which takes the memory of both. A report that cannot be
 * written fails the call before an older archive is replaced. docs/report.md says what each figure means. */
QUERN_API quern_status quern_config_report(quern_config *config, const char *path);
/* minmax, signed, mse; with samples importance and gptq */
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
/* Channels are scaled between norms or linear layers and the layers that read them, where that costs nothing and lowers rounding errors (docs/rounding.md). Off
 * by default. */
QUERN_API void quern_config_equalize(quern_config *config, bool on);

#endif
