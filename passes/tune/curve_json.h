/* curve_json.h - a tuning as JSON, in allocation files and beside them. */
#ifndef QN_CURVE_JSON_H
#define QN_CURVE_JSON_H

#include "passes/json_keys.h"
#include "passes/tune/curve.h"

/* { "measure": ..., "samples": ..., "chosen": {...}, "curve": [...] }, lines indented by two. */
void qn_tuning_write(const qn_tuning *u, qn_text *t);
/* As a `take` of qn_key: *to is a qn_tuning *. */
qn_status qn_tuning_read(const qn_reader *r, const cJSON *v, void *to);

#endif
