/* config_fields.h - the one list of the fields that a configuration file has. Defaults, reading, writing, the JSON Schema and the tables of
 * docs/config.md come from it or are checked against it. */
#ifndef QN_CONFIG_FIELDS_H
#define QN_CONFIG_FIELDS_H

#include "passes/config.h"

typedef enum qn_field_kind {
	QN_FIELD_INT,       /* int */
	QN_FIELD_NUMBER,    /* double */
	QN_FIELD_BOOL,      /* bool */
	QN_FIELD_PATH,      /* const char *, NULL for "" */
	QN_FIELD_NAMES,     /* qn_name_list */
	QN_FIELD_OVERRIDES, /* parameter -> value -> list of layers: calibration.overrides */
	QN_FIELD_LAYERS,    /* layer -> widths: pins */
	QN_FIELD_PRESET     /* int: the name of a preset, "" for none */
} qn_field_kind;

typedef enum qn_config_part { QN_PART_CALIBRATION, QN_PART_BIT, QN_PART_GPTQ, QN_PART_COUNT } qn_config_part;
extern const char *const qn_part_names[QN_PART_COUNT];

typedef struct qn_field {
	qn_config_part part;
	const char *snake;   /* "topk_ratio" */
	const char *json;    /* "maxPercentile.topKRatio": the group, if any, and the name in it */
	qn_field_kind kind;
	size_t offset;       /* in quern_config */
	double initial;      /* of INT, NUMBER and BOOL; the others start empty, but see qn_config_defaults */
	double low, high;    /* both included; high INFINITY: none */
	const char *help;    /* one sentence without its stop */
} qn_field;

extern const qn_field qn_fields[];
extern const size_t qn_field_count;

/* By the JSON name with `group` ("" or "maxPercentile") before it or, outside groups, by the snake_case name. NULL: not known. */
const qn_field *qn_field_find(qn_config_part part, const char *group, const char *name);
/* "0..3", "1 or more", "true or false", "a list of layers" ...: for messages and docs. */
const char *qn_field_range(qn_arena *a, const qn_field *f);
static inline void *qn_field_at(const quern_config *c, const qn_field *f) { return (char *)(uintptr_t)c + f->offset; }

/* Every field gets its default. layerOverrides gets the one published for it, {"actScaleMin": {"0.0005": []}}, which changes nothing. */
void qn_config_defaults(quern_config *c);

#endif
