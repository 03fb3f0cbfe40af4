/* npy.c - .npy files: a magic, a version, the length of a header, a Python dictionary, the data. */
#include "graph/npy.h"

#include "graph/onnx/mapfile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

enum { MAGIC = 6 };
static const char magic[MAGIC + 1] = "\x93NUMPY";

static const struct row {
	qn_dtype type;
	char kind;
	int size;
} rows[] = {
	{QN_BOOL, 'b', 1},
	{QN_I8, 'i', 1},
	{QN_I16, 'i', 2},
	{QN_I32, 'i', 4},
	{QN_I64, 'i', 8},
	{QN_U8, 'u', 1},
	{QN_U16, 'u', 2},
	{QN_U32, 'u', 4},
	{QN_U64, 'u', 8},
	{QN_F16, 'f', 2},
	{QN_F32, 'f', 4},
	{QN_F64, 'f', 8},
};

/* What is left of the dictionary's text */
typedef struct scan {
	qn_ctx *ctx;
	const char *name, *at, *end;
} scan;

typedef struct layout {
	bool have_type, have_order, have_shape;
	bool swap, fortran;
} layout;

static qn_status malformed(scan *s, const char *what)
{
	int n = s->end - s->at < 24 ? (int)(s->end - s->at) : 24;
	char near[25];
	for (int i = 0; i < n; i++)
		near[i] = isprint((unsigned char)s->at[i]) ? s->at[i] : '?';
	near[n] = 0;
	return qn_fail(s->ctx, QUERN_ERR_FORMAT, "'%s': .npy header: %s expected at '%s'", s->name, what, near);
}

static void blanks(scan *s)
{
	while (s->at < s->end && isspace((unsigned char)*s->at))
		s->at++;
}

static bool skip(scan *s, char c)
{
	blanks(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

/* A quoted text without escapes: its bytes stay in the header. */
static bool quoted(scan *s, const char **text, size_t *n)
{
	char quote = skip(s, '\'') ? '\'' : skip(s, '"') ? '"' : 0;
	const char *close = quote ? memchr(s->at, quote, (size_t)(s->end - s->at)) : NULL;
	if (!close)
		return false;
	*text = s->at;
	*n = (size_t)(close - s->at);
	s->at = close + 1;
	return true;
}

static bool word(scan *s, const char *w)
{
	size_t n = strlen(w);
	blanks(s);
	if ((size_t)(s->end - s->at) < n || memcmp(s->at, w, n))
		return false;
	s->at += n;
	return true;
}

static qn_status read_type(scan *s, qn_tensor *t, layout *l)
{
	const char *d;
	size_t n;
	if (!quoted(s, &d, &n)) {
		if (skip(s, '['))
			QN_FAIL(s->ctx, QUERN_ERR_UNSUPPORTED, "'%s': an array of records; save one field as an array of its own", s->name);
		return malformed(s, "a type in quotes");
	}
	l->have_type = true;
	if (n == 3 && strchr("<>|=", d[0]))
		for (size_t i = 0; i < QN_LEN(rows); i++)
			if (rows[i].kind == d[1] && rows[i].size == d[2] - '0') {
				t->type = rows[i].type;
				l->swap = d[0] == '>' && rows[i].size > 1;
				return QUERN_OK;
			}
	QN_FAIL(s->ctx, QUERN_ERR_UNSUPPORTED,
		"'%s': arrays of type '%.*s' are not supported; convert to bool, an integer type, float16, float32 or float64", s->name,
		n < 40 ? (int)n : 40, d);
}

static qn_status read_shape(scan *s, qn_tensor *t, layout *l)
{
	if (!skip(s, '('))
		return malformed(s, "a shape in parentheses");
	t->rank = 0;
	while (!skip(s, ')')) {
		int64_t dim = 0;
		const char *first = s->at; /* skip() left the blanks behind */
		if (t->rank == QN_MAX_RANK)
			QN_FAIL(s->ctx, QUERN_ERR_UNSUPPORTED, "'%s': more than %d axes", s->name, QN_MAX_RANK);
		for (; s->at < s->end && isdigit((unsigned char)*s->at); s->at++)
			if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, *s->at - '0', &dim))
				QN_FAIL(s->ctx, QUERN_ERR_FORMAT, "'%s': axis %d is too long for any file", s->name, t->rank);
		if (s->at == first)
			return malformed(s, "a whole number");
		(void)(skip(s, 'L') || skip(s, 'l')); /* Python 2 wrote long integers so */
		t->dim[t->rank++] = dim;
		if (!skip(s, ',')) {
			if (!skip(s, ')'))
				return malformed(s, "',' or ')'");
			break;
		}
	}
	l->have_shape = true;
	return QUERN_OK;
}

static qn_status read_entry(scan *s, qn_tensor *t, layout *l)
{
	const char *key;
	size_t n;
	if (!quoted(s, &key, &n) || !skip(s, ':'))
		return malformed(s, "a key and ':'");
	if (n == 5 && !memcmp(key, "descr", n))
		return read_type(s, t, l);
	if (n == 5 && !memcmp(key, "shape", n))
		return read_shape(s, t, l);
	if (n != 13 || memcmp(key, "fortran_order", n))
		QN_FAIL(s->ctx, QUERN_ERR_FORMAT, "'%s': .npy header: unknown key '%.*s'", s->name, n < 40 ? (int)n : 40, key);
	l->have_order = true;
	l->fortran = word(s, "True");
	return l->fortran || word(s, "False") ? QUERN_OK : malformed(s, "True or False");
}

static qn_status read_dictionary(scan *s, qn_tensor *t, layout *l)
{
	if (!skip(s, '{'))
		return malformed(s, "'{'");
	while (!skip(s, '}')) {
		QN_TRY(read_entry(s, t, l));
		if (!skip(s, ',')) {
			if (!skip(s, '}'))
				return malformed(s, "',' or '}'");
			break;
		}
	}
	if (!l->have_type || !l->have_order || !l->have_shape)
		QN_FAIL(s->ctx, QUERN_ERR_FORMAT, "'%s': .npy header has no '%s'", s->name,
			!l->have_type    ? "descr"
			: !l->have_shape ? "shape"
					 : "fortran_order");
	return QUERN_OK;
}

/* Copies element by element, with the axes and bytes put in our order. */
static void reorder(const uint8_t *from, uint8_t *to, const qn_tensor *t, const layout *l, size_t size)
{
	int64_t count = qn_tensor_count(t), at[QN_MAX_RANK] = {0}, stride[QN_MAX_RANK], s = 1, place = 0;
	for (int k = 0; k < t->rank; k++) {
		int i = l->fortran ? k : t->rank - 1 - k;
		stride[i] = s;
		s *= t->dim[i];
	}
	for (int64_t n = 0; n < count; n++, to += size) {
		const uint8_t *e = from + (size_t)place * size;
		for (size_t b = 0; b < size; b++)
			to[b] = e[l->swap ? size - 1 - b : b];
		for (int i = t->rank - 1; i >= 0; i--) {
			place += stride[i];
			if (++at[i] < t->dim[i])
				break;
			place -= stride[i] * t->dim[i];
			at[i] = 0;
		}
	}
}

static qn_status find_header(qn_ctx *ctx, const char *name, const uint8_t *b, size_t n, size_t *start, size_t *length)
{
	if (n < MAGIC + 4 || memcmp(b, magic, MAGIC))
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s' is not a .npy file", name);
	int version = b[MAGIC];
	if (version < 1 || version > 3)
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED, "'%s': .npy version %d is not known; 1 to 3 are", name, version);
	*start = version == 1 ? MAGIC + 4 : MAGIC + 6;
	if (n < *start)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': .npy header is cut off after %zu bytes", name, n);
	*length = version == 1 ? qn_get_u16(b + MAGIC + 2) : qn_get_u32(b + MAGIC + 2);
	if (n - *start < *length)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': .npy header of %zu bytes wanted, %zu available", name, *length, n - *start);
	return QUERN_OK;
}

static qn_status data_bytes(qn_ctx *ctx, const char *name, const qn_tensor *t, size_t available, size_t *bytes)
{
	int64_t count = 1;
	bool empty = false, fits = true;
	for (int i = 0; i < t->rank; i++) {
		empty |= t->dim[i] == 0;
		fits = fits && !__builtin_mul_overflow(count, t->dim[i], &count);
	}
	*bytes = 0;
	if (empty)
		return QUERN_OK;
	if (!fits || !qn_dtype_bytes(t->type, count, bytes))
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': the product of its axes overflows", name);
	if (*bytes > available)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "'%s': %zu bytes of data wanted, %zu available", name, *bytes, available);
	return QUERN_OK;
}

qn_status qn_npy_decode(qn_ctx *ctx, qn_arena *a, const char *name, const void *file, size_t n, qn_tensor *out)
{
	const uint8_t *b = file;
	size_t start = 0, length = 0, bytes;
	layout l = {0};
	QN_TRY(find_header(ctx, name, b, n, &start, &length));
	const char *text = (const char *)b + start;
	scan s = {ctx, name, text, text + length};
	*out = (qn_tensor){0};
	QN_TRY(read_dictionary(&s, out, &l));
	QN_TRY(data_bytes(ctx, name, out, n - start - length, &bytes));
	out->data = bytes ? b + start + length : NULL;
	if (bytes && (l.swap || (l.fortran && out->rank > 1))) {
		uint8_t *copy = qn_arena_alloc(a, bytes);
		reorder(out->data, copy, out, &l, qn_dtype_size(out->type));
		out->data = copy;
	}
	return QUERN_OK;
}

qn_status qn_npy_load(qn_ctx *ctx, qn_arena *a, const char *path, qn_tensor *out)
{
	qn_bytes file;
	qn_status status = qn_file_map(ctx, a, path, &file);
	if (status != QUERN_OK)
		return qn_prefix(ctx, status, "'%s'", path);
	return qn_npy_decode(ctx, a, path, file.data, file.n, out);
}

qn_status qn_npy_header(qn_ctx *ctx, const char *name, const qn_tensor *t, uint8_t header[QN_NPY_HEADER], size_t *n)
{
	const struct row *r = NULL;
	for (size_t i = 0; i < QN_LEN(rows); i++)
		if (rows[i].type == t->type)
			r = &rows[i];
	if (!r)
		QN_FAIL(ctx, QUERN_ERR_UNSUPPORTED, "'%s': NumPy has no %s; convert to f32", name, qn_dtype_name(t->type));
	enum { START = MAGIC + 4, ALIGN = 64 };
	char *text = (char *)header + START;
	size_t room = QN_NPY_HEADER - START;
	size_t at = (size_t)snprintf(
		text, room, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", r->size > 1 ? '<' : '|', r->kind, r->size);
	for (int i = 0; i < t->rank; i++)
		at += (size_t)snprintf(
			text + at, room - at, "%s%" PRId64 "%s", i ? " " : "", t->dim[i], t->rank == 1 || i < t->rank - 1 ? "," : "");
	at += (size_t)snprintf(text + at, room - at, "), }");
	/* the data starts at a multiple of 64, after a line feed */
	*n = (START + at + 1 + ALIGN - 1) / ALIGN * ALIGN;
	memset(text + at, ' ', *n - START - at);
	header[*n - 1] = '\n';
	memcpy(header, magic, MAGIC);
	header[MAGIC] = 1;
	header[MAGIC + 1] = 0;
	qn_put_u16(header + MAGIC + 2, (uint16_t)(*n - START));
	return QUERN_OK;
}

qn_status qn_npy_encode(qn_ctx *ctx, qn_arena *a, const char *name, const qn_tensor *t, const void **file, size_t *n)
{
	uint8_t header[QN_NPY_HEADER];
	size_t length, bytes = qn_tensor_bytes(t);
	QN_TRY(qn_npy_header(ctx, name, t, header, &length));
	uint8_t *all = qn_arena_alloc(a, length + bytes);
	memcpy(all, header, length);
	if (bytes)
		memcpy(all + length, t->data, bytes);
	*file = all;
	*n = length + bytes;
	return QUERN_OK;
}
