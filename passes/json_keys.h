/* json_keys.h - JSON objects of known keys, checked as they are read. Messages: QUERN_ERR_CONFIG, "'FILE', PLACE: 'KEY' cannot be VALUE; allowed: ...". */
#ifndef QN_JSON_KEYS_H
#define QN_JSON_KEYS_H

#include "passes/json.h"

typedef struct qn_reader {
	qn_ctx *ctx;
	qn_arena *a; /* of what is read; the JSON tree lives there too */
	const char *path;
	const char *where; /* "", "model", "layer 'x'" */
} qn_reader;

typedef struct qn_key {
	const char *name;
	bool needed;
	qn_status (*take)(const qn_reader *r, const cJSON *v, void *to);
} qn_key;

/* Gives each key of `o` to its `take`; a needed key that is missing and an unknown one are errors, the latter with the nearest name. */
qn_status qn_read_object(const qn_reader *r, const cJSON *o, const qn_key *keys, size_t n, void *to);
/* The failure for a value out of place. */
qn_status qn_read_wrong(const qn_reader *r, const cJSON *v, const char *allowed);

qn_status qn_read_text(const qn_reader *r, const cJSON *v, const char **to);
qn_status qn_read_int(const qn_reader *r, const cJSON *v, int64_t low, int64_t high, int *to);
qn_status qn_read_float(const qn_reader *r, const cJSON *v, bool positive, float *to);
/* A list of floats over 0. */
qn_status qn_read_floats(const qn_reader *r, const cJSON *v, const char *allowed, float **to, int64_t *n);
/* One of the names that name_of gives for first .. n - 1; *to is its number. */
qn_status qn_read_choice(const qn_reader *r, const cJSON *v, const char *(*name_of)(int), int first, int n, int *to);

#endif
