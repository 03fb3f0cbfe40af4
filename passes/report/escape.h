/* escape.h - text of strangers in a report. ONNX names may hold anything: bytes that are no UTF-8, control characters, markup. */
#ifndef QN_REPORT_ESCAPE_H
#define QN_REPORT_ESCAPE_H

#include "graph/base.h"

/* Valid UTF-8: each byte that is none becomes U+FFFD. Surrogates, overlong forms and code points past U+10FFFF are none. */
const char *qn_report_utf8(qn_arena *a, const char *s);
/* A JSON string that may stand inside a <script>: valid UTF-8, and '<', '>', '&' as \u00XX. */
void qn_report_json_string(qn_text *t, const char *s);
/* Text of an element or of an attribute in double quotes: valid UTF-8, markup as references, control characters as their pictures (U+2400 on). */
void qn_report_html_string(qn_text *t, const char *s);

#endif
