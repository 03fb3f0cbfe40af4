/* json.h - JSON files of ours: strict reading through cJSON, and text that reads back exactly. */
#ifndef QN_JSON_H
#define QN_JSON_H

#include "graph/base.h"

#include <cJSON.h>

enum { QN_JSON_DEEPEST = 32 };

/* Parses a text; the tree lives until `a` is released. Stricter than cJSON: numbers as RFC 8259 writes them and within the range of a double, no
 * comments, no text after the value, no control characters in strings, no \u0000, no key twice in an object, no more than QN_JSON_DEEPEST levels.
 * QUERN_ERR_CONFIG; the message names `name`, the line and the column, or the key. */
qn_status qn_json_parse(qn_ctx *ctx, qn_arena *a, const char *name, const char *text, size_t n, const cJSON **out);
/* The same for a file of at most `most` bytes. */
qn_status qn_json_read(qn_ctx *ctx, qn_arena *a, const char *path, size_t most, const cJSON **out);

/* Appends a quoted string; a number in the fewest digits that read back as the same double or float. */
void qn_json_string(qn_text *t, const char *s);
void qn_json_double(qn_text *t, double v);
void qn_json_float(qn_text *t, float v);

/* A value for a message, cut to some 60 characters. */
const char *qn_json_show(qn_arena *a, const cJSON *item);
/* What it is: "a string", "a list" ... */
const char *qn_json_kind(const cJSON *item);
/* Whether it is a whole number in [low, high]. */
bool qn_json_whole(const cJSON *item, int64_t low, int64_t high, int64_t *out);

#endif
