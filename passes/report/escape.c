/* escape.c - names made safe for JSON in a page, and for the page. */
#include "passes/report/escape.h"

#include "passes/json.h"

/* Bytes of the UTF-8 sequence at s; 0: there is none. */
static int sequence(const unsigned char *s)
{
	if (s[0] < 0x80)
		return 1;
	int n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
	bool outside = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
	return overlong || outside ? 0 : n;
}

const char *qn_report_utf8(qn_arena *a, const char *s)
{
	qn_text t = {.arena = a};
	qn_text_bytes(&t, "", 0);
	while (*s) {
		int n = sequence((const unsigned char *)s);
		qn_text_bytes(&t, n ? s : "\xef\xbf\xbd", n ? (size_t)n : 3);
		s += n ? n : 1;
	}
	return t.s ? t.s : "";
}

void qn_report_json_string(qn_text *t, const char *s)
{
	qn_text plain = {.arena = t->arena};
	qn_json_string(&plain, qn_report_utf8(t->arena, s));
	for (const char *p = plain.s; *p; p++)
		if (*p == '<' || *p == '>' || *p == '&')
			qn_text_add(t, "\\u%04x", (unsigned)*p);
		else
			qn_text_bytes(t, p, 1);
}

void qn_report_html_string(qn_text *t, const char *s)
{
	for (const char *p = qn_report_utf8(t->arena, s); *p; p++) {
		unsigned char c = (unsigned char)*p;
		if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
			qn_text_add(t, "&#%d;", c);
		else if (c < 0x20 || c == 0x7f)
			qn_text_add(t, "&#x%x;", c == 0x7f ? 0x2421u : 0x2400u + c);
		else if (c == 0xc2 && (unsigned char)p[1] < 0xa0) { /* U+0080 to U+009F: controls without a picture */
			qn_text_add(t, "&#xfffd;");
			p++;
		} else
			qn_text_bytes(t, p, 1);
	}
}
