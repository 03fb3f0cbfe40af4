/* json.c - what cJSON lets pass and JSON does not is refused before cJSON sees it. */
#include "passes/json.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct scan {
	qn_ctx *ctx;
	const char *name, *text, *at, *end;
} scan;

static qn_status refuse(const scan *s, const char *at, const char *why)
{
	size_t line = 1, column = 1;
	for (const char *p = s->text; p < at; p++) {
		column = *p == '\n' ? 1 : column + 1;
		line += *p == '\n';
	}
	QN_FAIL(s->ctx, QUERN_ERR_CONFIG, "'%s': line %zu, column %zu: %s", s->name, line, column, why);
}

static qn_status skip_string(scan *s)
{
	const char *begin = s->at++;
	for (; s->at < s->end && *s->at != '"'; s->at++) {
		if ((unsigned char)*s->at < 0x20)
			return refuse(s, s->at, "a control character in a string; write it as \\u00XX");
		if (*s->at != '\\')
			continue;
		if (s->end - s->at > 5 && !memcmp(s->at, "\\u0000", 6))
			return refuse(s, s->at, "\\u0000 in a string");
		s->at++;
	}
	if (s->at >= s->end)
		return refuse(s, begin, "a string that does not end");
	s->at++;
	return QUERN_OK;
}

static bool digits(scan *s)
{
	const char *begin = s->at;
	while (s->at < s->end && isdigit((unsigned char)*s->at))
		s->at++;
	return s->at > begin;
}

static bool take(scan *s, const char *any)
{
	if (s->at >= s->end || !*s->at || !strchr(any, *s->at))
		return false;
	s->at++;
	return true;
}

static qn_status skip_number(scan *s)
{
	enum { LONGEST = 60 }; /* what cJSON can hold */
	const char *begin = s->at;
	take(s, "-");
	if (s->at < s->end && *s->at == 'I')
		return refuse(s, begin, "NaN and Infinity are no JSON numbers");
	const char *whole = s->at;
	bool good = digits(s) && !(*whole == '0' && s->at - whole > 1);
	if (good && take(s, "."))
		good = digits(s);
	if (good && take(s, "eE")) {
		take(s, "+-");
		good = digits(s);
	}
	if (!good || (s->at < s->end && (isalnum((unsigned char)*s->at) || *s->at == '.')))
		return refuse(s, begin, "this is no JSON number");
	if (s->at - begin > LONGEST)
		return refuse(s, begin, "a number of more than 60 characters");
	char copy[LONGEST + 1] = {0};
	memcpy(copy, begin, (size_t)(s->at - begin));
	return isfinite(strtod(copy, NULL)) ? QUERN_OK : refuse(s, begin, "a number too large for a double");
}

/* Lexical rules and depth; what may follow what is left to cJSON. */
static qn_status check_text(scan *s)
{
	int depth = 0;
	while (s->at < s->end) {
		char c = *s->at;
		if (c == '"') {
			QN_TRY(skip_string(s));
		} else if (c == '-' || isdigit((unsigned char)c)) {
			QN_TRY(skip_number(s));
		} else if (c == '/' || c == '#') {
			return refuse(s, s->at, "JSON has no comments");
		} else if (c == 'N' || c == 'I') {
			return refuse(s, s->at, "NaN and Infinity are no JSON numbers");
		} else if (!c) {
			return refuse(s, s->at, "a NUL byte");
		} else {
			depth += (c == '{' || c == '[') - (c == '}' || c == ']');
			if (depth > QN_JSON_DEEPEST)
				return refuse(s, s->at, "nested too deeply");
			s->at++;
		}
	}
	return QUERN_OK;
}

static int by_key(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static qn_status check_keys(qn_ctx *ctx, qn_arena *a, const char *name, const cJSON *item)
{
	const cJSON *child;
	size_t n = 0;
	cJSON_ArrayForEach(child, item)
	{
		n += cJSON_IsObject(item);
		if (child->child)
			QN_TRY(check_keys(ctx, a, name, child));
	}
	const char **keys = QN_NEW(a, const char *, n + 1);
	n = 0;
	if (cJSON_IsObject(item))
		cJSON_ArrayForEach(child, item)
			keys[n++] = child->string;
	if (n)
		qsort(keys, n, sizeof *keys, by_key);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(keys[i - 1], keys[i]))
			QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s': '%.200s' is given twice in one object", name, keys[i]);
	return QUERN_OK;
}

static void delete_tree(void *holder)
{
	cJSON **tree = holder;
	cJSON_Delete(*tree);
}

qn_status qn_json_parse(qn_ctx *ctx, qn_arena *a, const char *name, const char *text, size_t n, const cJSON **out)
{
	scan s = {ctx, name, text, text, text + n};
	if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		s.at += 3;
	QN_TRY(check_text(&s));
	cJSON **tree = QN_NEW(a, cJSON *, 1);
	qn_arena_defer(a, delete_tree, tree);
	const char *end = text;
	*tree = cJSON_ParseWithLengthOpts(text, n, &end, 0);
	if (!*tree)
		return refuse(&s, end < s.end ? end : s.end, n ? "this is no JSON" : "an empty file is no JSON");
	while (end < s.end && isspace((unsigned char)*end))
		end++;
	if (end < s.end)
		return refuse(&s, end, "text after the end of the value");
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	qn_status status = check_keys(ctx, &scratch, name, *tree);
	qn_arena_release(&scratch);
	*out = *tree;
	return status;
}

/* Closes once, whether reading ends or the memory does. */
static void close_file(void *holder)
{
	int *fd = holder;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

qn_status qn_json_read(qn_ctx *ctx, qn_arena *a, const char *path, size_t most, const cJSON **out)
{
	int *fd = QN_NEW(a, int, 1);
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	qn_arena_defer(a, close_file, fd);
	struct stat st;
	if (*fd < 0 || fstat(*fd, &st))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		QN_FAIL(ctx, QUERN_ERR_IO, "cannot read '%s': it is no regular file", path);
	if ((uint64_t)st.st_size > most)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s' has %lld bytes; at most %zu are read", path, (long long)st.st_size, most);
	size_t n = 0;
	char *text = qn_arena_alloc(a, (size_t)st.st_size + 1);
	while (n < (size_t)st.st_size) {
		ssize_t got = read(*fd, text + n, (size_t)st.st_size - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			QN_FAIL(ctx, QUERN_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
		if (!got)
			break;
		n += (size_t)got;
	}
	close_file(fd);
	return qn_json_parse(ctx, a, path, text, n, out);
}

void qn_json_string(qn_text *t, const char *s)
{
	qn_text_bytes(t, "\"", 1);
	for (const char *run = s;; s++) {
		unsigned char c = (unsigned char)*s;
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		qn_text_bytes(t, run, (size_t)(s - run));
		run = s + 1;
		if (!c)
			break;
		if (c == '"' || c == '\\')
			qn_text_add(t, "\\%c", c);
		else
			qn_text_add(t, "\\u%04x", c);
	}
	qn_text_bytes(t, "\"", 1);
}

/* A host may have set a locale with another decimal point. */
static void add_digits(qn_text *t, char *digits_of)
{
	for (char *p = digits_of; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '-' && *p != '+')
			*p = '.';
	qn_text_add(t, "%s", digits_of);
}

void qn_json_double(qn_text *t, double v)
{
	char s[40];
	int precision = 1;
	do
		snprintf(s, sizeof s, "%.*g", precision, v);
	while (strtod(s, NULL) != v && ++precision <= 17);
	add_digits(t, s);
}

void qn_json_float(qn_text *t, float v)
{
	char s[40];
	int precision = 1;
	do
		snprintf(s, sizeof s, "%.*g", precision, (double)v);
	while ((float)strtod(s, NULL) != v && ++precision <= 9);
	add_digits(t, s);
}

const char *qn_json_kind(const cJSON *item)
{
	return cJSON_IsString(item) ? "a string" : cJSON_IsNumber(item) ? "a number" : cJSON_IsBool(item) ? "true or false" : cJSON_IsArray(item) ?
		"a list" : cJSON_IsObject(item) ? "an object" : "null";
}

const char *qn_json_show(qn_arena *a, const cJSON *item)
{
	qn_text t = {.arena = a};
	if (cJSON_IsNumber(item)) {
		qn_json_double(&t, item->valuedouble);
		return t.s;
	}
	if (cJSON_IsBool(item))
		return cJSON_IsTrue(item) ? "true" : "false";
	return cJSON_IsString(item) ? qn_arena_printf(a, "\"%.60s%s\"", item->valuestring, strlen(item->valuestring) > 60 ? "..." : "") : qn_json_kind(item);
}

bool qn_json_whole(const cJSON *item, int64_t low, int64_t high, int64_t *out)
{
	double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
	if (!(v >= (double)low && v <= (double)high) || v != floor(v))
		return false;
	*out = (int64_t)v;
	return true;
}
