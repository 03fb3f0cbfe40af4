/* external.c - tensor data in files beside the model. */
#include "graph/onnx/loader.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

typedef struct location {
	const char *path;
	uint64_t offset, length;
	bool has_length;
} location;

/* Decimal digits only: no sign, no space, nothing behind. */
static bool parse_u64(const char *s, uint64_t *out)
{
	uint64_t v = 0;
	if (!*s)
		return false;
	for (; *s; s++)
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	*out = v;
	return true;
}

static qn_status parse_number(qn_loader *ld, const char *subject, const char *key, const char *text, uint64_t *out)
{
	if (!parse_u64(text, out))
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s: external %s '%s' is not a number of bytes", subject, key, text);
	return QUERN_OK;
}

static qn_status parse_location(qn_loader *ld, const char *subject, const Qn__TensorProto *t, location *out)
{
	*out = (location){0};
	for (size_t i = 0; i < t->n_external_data; i++) {
		const char *key = qn_str(t->external_data[i]->key), *text = qn_str(t->external_data[i]->value);
		if (!strcmp(key, "location")) {
			if (out->path)
				QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s has two external locations, '%s' and '%s'", subject, out->path,
					text);
			out->path = text;
		} else if (!strcmp(key, "offset")) {
			QN_TRY(parse_number(ld, subject, key, text, &out->offset));
		} else if (!strcmp(key, "length")) {
			QN_TRY(parse_number(ld, subject, key, text, &out->length));
			out->has_length = out->length != 0; /* some exporters write 0 for "as the shape says" */
		} else if (strcmp(key, "checksum") != 0) {
			qn_log(ld->ctx, QUERN_LOG_DEBUG, "%s: external data key '%s' is not known and is left aside", subject, key);
		}
	}
	return QUERN_OK;
}

/* Why a location may not even be looked up, or NULL. */
static const char *forbidden(const char *path)
{
	if (!path || !*path)
		return "is empty";
	bool is_letter = (*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z');
	if (*path == '/' || (is_letter && path[1] == ':'))
		return "is absolute";
	if (strchr(path, '\\'))
		return "has backslashes; write it with forward slashes";
	for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		if (!strncmp(p, "..", 2) && (p[2] == '/' || p[2] == '\0'))
			return "has '..'";
	return NULL;
}

static bool is_inside(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	if (n && folder[n - 1] == '/') /* the root */
		n--;
	return !strncmp(path, folder, n) && path[n] == '/';
}

/* The file behind all symbolic links must lie in the model's folder. */
static qn_status resolve(qn_loader *ld, const char *subject, const char *path, const char **out)
{
	char folder[PATH_MAX], real[PATH_MAX];
	if (!realpath(*ld->folder ? ld->folder : ".", folder))
		QN_FAIL(ld->ctx, QUERN_ERR_IO, "the model's folder '%s' cannot be read: %s", ld->folder, strerror(errno));
	const char *joined = qn_arena_printf(ld->tmp, "%s/%s", folder, path);
	if (!realpath(joined, real))
		QN_FAIL(ld->ctx, QUERN_ERR_IO, "%s: external file '%s' in the model's folder cannot be opened: %s", subject, path,
			strerror(errno));
	if (!is_inside(real, folder))
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT,
			"%s: external location '%s' is a link out of the model's folder; copy the file into the folder", subject, path);
	*out = qn_arena_strdup(ld->tmp, real);
	return QUERN_OK;
}

/* Each file is mapped once, however its location is spelt. */
static qn_status open_file(qn_loader *ld, const char *subject, const char *path, qn_bytes *out)
{
	qn_bytes *known = qn_names_get(ld->files, path);
	if (!known) {
		const char *real;
		QN_TRY(resolve(ld, subject, path, &real));
		known = qn_names_get(ld->files, real);
		if (!known) {
			known = QN_NEW(ld->tmp, qn_bytes, 1);
			qn_status status = qn_file_map(ld->ctx, ld->a, real, known);
			if (status != QUERN_OK)
				return qn_prefix(ld->ctx, status, "%s: external file '%s'", subject, path);
			qn_names_put(ld->files, real, known);
		}
		qn_names_put(ld->files, qn_arena_strdup(ld->tmp, path), known);
	}
	*out = *known;
	return QUERN_OK;
}

qn_status qn_external_bytes(qn_loader *ld, const char *subject, const Qn__TensorProto *t, size_t need, qn_bytes *out)
{
	location at;
	QN_TRY(parse_location(ld, subject, t, &at));
	const char *why = forbidden(at.path);
	if (why)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s: external location '%s' %s; only files inside the model's folder are read", subject,
			qn_str(at.path), why);
	if (at.has_length && at.length != need)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s: external length is %llu bytes, its shape and type need %zu", subject,
			(unsigned long long)at.length, need);
	*out = (qn_bytes){NULL, 0};
	if (!need)
		return QUERN_OK;
	if (!ld->folder)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "%s is in the external file '%s', but the model came without a folder", subject,
			at.path);
	qn_bytes file = {0};
	QN_TRY(open_file(ld, subject, at.path, &file));
	if (at.offset > file.n || need > file.n - at.offset)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT,
			"%s: needs %zu bytes at offset %llu of external file '%s', which has %zu bytes; the file is cut "
			"short or belongs to another model",
			subject, need, (unsigned long long)at.offset, at.path, file.n);
	*out = (qn_bytes){file.data + at.offset, need};
	return QUERN_OK;
}
