/* samples.c - finds and reads samples, and says what is wrong with one. */
#include "graph/samples.h"

#include "graph/npz.h"
#include "graph/onnx.h"
#include "graph/op.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct sample {
	const char *path;
	bool is_folder;                 /* a test_data_set */
	const qn_tensor *const *inputs; /* of a host program */
	uint64_t content;               /* a hash of its inputs, once qn_samples_sort ran */
	size_t rank;                    /* samples of other content before it */
} sample;

struct qn_samples {
	qn_graph *g;
	qn_arena *arena;
	sample *v;
	size_t n, cap;
	bool said_empty, sorted;
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcasecmp(s + n - m, end);
}

static void add(qn_samples *s, sample item)
{
	QN_GROW(s->arena, s->v, s->n, s->cap);
	s->v[s->n++] = item;
	s->sorted = false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const sample *)a)->path, ((const sample *)b)->path);
}

static bool is_folder(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static qn_status scan(qn_samples *s, const char *path)
{
	DIR *d = opendir(path);
	if (!d)
		QN_FAIL(s->g->ctx, QUERN_ERR_IO, "cannot read folder '%s': %s", path, strerror(errno));
	const struct dirent *e;
	bool data_set = false;
	while ((e = readdir(d))) {
		const char *full = qn_arena_printf(s->arena, "%s/%s", path, e->d_name);
		if (ends_with(e->d_name, ".npz") && strncmp(e->d_name, "expected_", 9) && e->d_name[0] != '.')
			add(s, (sample){.path = full});
		else if (!strncmp(e->d_name, "test_data_set_", 14) && is_folder(full))
			add(s, (sample){.path = full, .is_folder = true});
		data_set |= !strcmp(e->d_name, "input_0.pb");
	}
	closedir(d);
	if (!s->n && data_set)
		add(s, (sample){.path = qn_arena_strdup(s->arena, path), .is_folder = true});
	if (s->n)
		qsort(s->v, s->n, sizeof *s->v, by_name);
	return QUERN_OK;
}

qn_samples *qn_samples_memory(qn_graph *g, qn_arena *a)
{
	qn_samples *s = QN_NEW(a, qn_samples, 1);
	*s = (qn_samples){.g = g, .arena = a};
	return s;
}

qn_status qn_samples_add(qn_samples *s, const qn_tensor *const *inputs)
{
	const qn_tensor **kept = QN_NEW(s->arena, const qn_tensor *, s->g->n_inputs + 1);
	for (int i = 0; i < s->g->n_inputs; i++) {
		if (!inputs[i])
			continue;
		qn_tensor *t = qn_tensor_new(s->arena, inputs[i]->type, inputs[i]->rank, inputs[i]->dim);
		if (t->data)
			memcpy((void *)(uintptr_t)t->data, inputs[i]->data, qn_tensor_bytes(t));
		kept[i] = t;
	}
	add(s, (sample){.path = qn_arena_printf(s->arena, "sample %zu", s->n), .inputs = kept});
	return QUERN_OK;
}

qn_status qn_samples_open(qn_graph *g, const char *path, qn_arena *a, qn_samples **out)
{
	qn_samples *s = qn_samples_memory(g, a);
	if (is_folder(path))
		QN_TRY(scan(s, path));
	else if (access(path, R_OK))
		QN_FAIL(g->ctx, QUERN_ERR_IO, "cannot read samples '%s': %s", path, strerror(errno));
	else
		add(s, (sample){.path = qn_arena_strdup(a, path)});
	qn_source_note_path(g->ctx, path);
	qn_source_note_folder(g->ctx, path);
	if (!s->n)
		QN_FAIL(g->ctx, QUERN_ERR_CONFIG, "no samples in '%s': it holds neither .npz files nor test_data_set folders", path);
	*out = s;
	return QUERN_OK;
}

size_t qn_samples_count(const qn_samples *s)
{
	return s->n;
}
const char *qn_samples_name(const qn_samples *s, size_t i)
{
	return s->v[i].path;
}

/* --- one sample ------------------------------------------------------------------------------------------------- */
/* -inf may stand for what a mask leaves out; NaN and +inf mean nothing, and whatever is measured on them would not either. */
static qn_status check_values(qn_samples *s, const char *name, const qn_value *v, const qn_tensor *t)
{
	int64_t n = qn_dtype_is_float(t->type) ? qn_tensor_count(t) : 0;
	for (int64_t i = 0; i < n; i++)
		if (!(qn_tensor_get(t, i) < INFINITY))
			QN_FAIL(s->g->ctx, QUERN_ERR_NUMERIC, "sample '%s': input '%s' holds NaN or infinity", name, v->name);
	return QUERN_OK;
}

static qn_status convert(qn_samples *s, const char *name, const qn_value *v, const qn_tensor *t, qn_arena *a, const qn_tensor **out)
{
	qn_dtype want = v->fact.type;
	*out = qn_tensor_aligned(a, t);
	if (v->fact.shape.rank >= 0 && t->rank != v->fact.shape.rank)
		QN_FAIL(s->g->ctx, QUERN_ERR_SHAPE, "sample '%s': input '%s' has rank %d, the graph takes %d", name, v->name, t->rank,
			v->fact.shape.rank);
	if (t->type == want)
		return QUERN_OK;
	bool ints = qn_dtype_is_int(t->type) && (qn_dtype_is_int(want) || want == QN_BOOL);
	bool floats = (qn_dtype_is_float(t->type) && qn_dtype_is_float(want)) || (t->type == QN_BOOL && qn_dtype_is_int(want));
	if (!ints && !floats)
		QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s': input '%s' is %s, the graph takes %s", name, v->name,
			qn_dtype_name(t->type), qn_dtype_name(want));
	qn_tensor *r = qn_tensor_new(a, want, t->rank, t->dim);
	int64_t n = qn_tensor_count(t);
	if (n)
		qn_convert((*out)->data, t->type, (void *)(uintptr_t)r->data, want, n);
	for (int64_t i = 0; ints && i < n; i++)
		if (qn_tensor_get_i64(r, i) != qn_tensor_get_i64(*out, i))
			QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s': input '%s' holds %lld, which %s cannot hold", name, v->name,
				(long long)qn_tensor_get_i64(*out, i), qn_dtype_name(want));
	*out = r;
	return QUERN_OK;
}

enum { NODES_BETWEEN = 8 };

/* Whether new items are put behind v: it reaches a Concat through nodes that only move or convert elements. */
static bool is_prefix(const qn_value *v, int depth)
{
	for (size_t i = 0; i < v->n_uses; i++) {
		const qn_node *n = v->uses[i].node;
		if (!*n->domain && !strcmp(n->op->name, "Concat"))
			return true;
		bool moves = (n->op->traits & (QN_LAYOUT | QN_KEEPS_WEIGHT)) && v->uses[i].input == 0;
		if (moves && depth && qn_node_has_out(n, 0) && is_prefix(n->out[0], depth - 1))
			return true;
	}
	return false;
}

/* The axis along which a state (past keys and values) grows: a dim that no given input has. -1 where the input is no state. */
static int state_axis(qn_samples *s, int input, const qn_tensor *const *given)
{
	const qn_shape *shape = &s->g->inputs[input]->fact.shape;
	if (!is_prefix(s->g->inputs[input], NODES_BETWEEN))
		return -1;
	for (int k = 0; k < shape->rank; k++) {
		if (qn_dim_is_const(shape->dim[k]))
			continue;
		bool elsewhere = false, any = false;
		for (int i = 0; i < s->g->n_inputs; i++)
			for (int d = 0; given[i] && d < s->g->inputs[i]->fact.shape.rank; d++) {
				any = true;
				elsewhere |= qn_dim_equal(s->g->inputs[i]->fact.shape.dim[d], shape->dim[k]);
			}
		if (any && !elsewhere)
			return k;
	}
	return -1;
}

static const qn_tensor *empty_state(qn_samples *s, int input, int axis, const qn_tensor *const *given, qn_arena *a)
{
	const qn_value *v = s->g->inputs[input];
	int64_t dim[QN_MAX_RANK];
	for (int k = 0; k < v->fact.shape.rank; k++) {
		dim[k] = qn_dim_is_const(v->fact.shape.dim[k]) ? v->fact.shape.dim[k].k : 1;
		for (int i = 0; i < s->g->n_inputs; i++)
			for (int d = 0; given[i] && d < s->g->inputs[i]->fact.shape.rank; d++)
				if (qn_dim_equal(s->g->inputs[i]->fact.shape.dim[d], v->fact.shape.dim[k]))
					dim[k] = given[i]->dim[d];
	}
	dim[axis] = 0;
	return qn_tensor_new(a, v->fact.type, v->fact.shape.rank, dim);
}

static qn_status fill_missing(qn_samples *s, const char *name, qn_arena *a, const qn_tensor **inputs)
{
	int empty = 0;
	const char *first = NULL;
	const qn_tensor **given = QN_NEW(a, const qn_tensor *, s->g->n_inputs + 1);
	memcpy(given, inputs, (size_t)s->g->n_inputs * sizeof *given);
	for (int i = 0; i < s->g->n_inputs; i++) {
		if (inputs[i])
			continue;
		int axis = state_axis(s, i, given);
		if (axis < 0)
			QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s' has no input '%s'", name, s->g->inputs[i]->name);
		inputs[i] = empty_state(s, i, axis, given, a);
		first = first ? first : s->g->inputs[i]->name;
		empty++;
	}
	if (empty && !s->said_empty)
		qn_log(s->g->ctx, QUERN_LOG_INFO, "%d state input%s not given (the first is '%s') start%s empty", empty,
			empty > 1 ? "s" : "", first, empty > 1 ? "" : "s");
	s->said_empty |= empty > 0;
	return QUERN_OK;
}

static qn_status read_npz(qn_samples *s, const char *path, qn_arena *a, const qn_tensor **inputs)
{
	qn_npz *z;
	QN_TRY(qn_npz_read(s->g->ctx, a, path, &z));
	for (int k = 0; k < qn_npz_count(z); k++) {
		const char *name = qn_npz_name(z, k);
		int at = -1;
		for (int i = 0; i < s->g->n_inputs; i++)
			if (!strcmp(s->g->inputs[i]->name, name))
				at = i;
		if (at < 0)
			QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s': the graph has no input '%s'", path, name);
		QN_TRY(convert(s, path, s->g->inputs[at], qn_npz_get(z, name), a, &inputs[at]));
		QN_TRY(check_values(s, path, s->g->inputs[at], inputs[at]));
	}
	return QUERN_OK;
}

/* Files are numbered as the inputs are. A tensor may be called anything but another input. */
static qn_status check_place(qn_samples *s, const char *path, int input, const char *name)
{
	for (int i = 0; name && i < s->g->n_inputs; i++) {
		if (i != input && !strcmp(s->g->inputs[i]->name, name) && strcmp(s->g->inputs[input]->name, name) != 0)
			QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s': input_%d.pb is called '%s', which is input %d of the graph; input %d is '%s'", path,
				input, name, i, input, s->g->inputs[input]->name);
	}
	return QUERN_OK;
}

static qn_status read_folder(qn_samples *s, const char *path, qn_arena *a, const qn_tensor **inputs)
{
	for (int i = 0; i <= s->g->n_inputs; i++) {
		const char *file = qn_arena_printf(a, "%s/input_%d.pb", path, i), *name;
		if (access(file, F_OK))
			continue; /* fill_missing says what to do */
		if (i == s->g->n_inputs)
			QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s': it has input_%d.pb, the graph has %d input%s", path, i, i,
				i == 1 ? "" : "s");
		qn_tensor *t;
		QN_TRY(qn_onnx_tensor_file(s->g->ctx, file, a, &t, &name));
		QN_TRY(check_place(s, path, i, name));
		QN_TRY(convert(s, path, s->g->inputs[i], t, a, &inputs[i]));
		QN_TRY(check_values(s, path, s->g->inputs[i], inputs[i]));
	}
	return QUERN_OK;
}

/* Nothing can be seen of a sample without a single element, and nothing that is measured on it means anything. A state may be empty. */
static qn_status check_elements(qn_samples *s, const char *name, const qn_tensor *const *inputs)
{
	const char *empty = NULL;
	for (int i = 0; i < s->g->n_inputs; i++) {
		if (!inputs[i] || is_prefix(s->g->inputs[i], NODES_BETWEEN))
			continue;
		if (qn_tensor_count(inputs[i]))
			return QUERN_OK;
		empty = s->g->inputs[i]->name;
	}
	if (empty)
		QN_FAIL(s->g->ctx, QUERN_ERR_CONFIG, "sample '%s' is empty: its inputs ('%s' is one) have no elements", name, empty);
	return QUERN_OK;
}

qn_status qn_samples_read(qn_samples *s, size_t i, qn_arena *a, const qn_tensor **inputs)
{
	const sample *it = &s->v[i];
	memset(inputs, 0, (size_t)s->g->n_inputs * sizeof *inputs);
	if (it->inputs)
		for (int k = 0; k < s->g->n_inputs; k++) {
			if (it->inputs[k])
				QN_TRY(convert(s, it->path, s->g->inputs[k], it->inputs[k], a, &inputs[k]));
		}
	else if (it->is_folder)
		QN_TRY(read_folder(s, it->path, a, inputs));
	else
		QN_TRY(read_npz(s, it->path, a, inputs));
	QN_TRY(check_elements(s, it->path, inputs));
	return fill_missing(s, it->path, a, inputs);
}

/* --- order -------------------------------------------------------------------------------------------------------- */
static uint64_t mix(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;
	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

static int by_content(const void *a, const void *b)
{
	const sample *x = a, *y = b;
	return x->content < y->content ? -1 : x->content > y->content;
}

qn_status qn_samples_sort(qn_samples *s)
{
	if (s->sorted)
		return QUERN_OK;
	qn_arena a;
	qn_arena_init(&a, s->g->ctx);
	qn_status status = QUERN_OK;
	for (size_t i = 0; i < s->n && status == QUERN_OK; i++) {
		const qn_tensor **inputs = QN_NEW(&a, const qn_tensor *, s->g->n_inputs + 1);
		status = qn_samples_read(s, i, &a, inputs);
		uint64_t h = 0xcbf29ce484222325u;
		for (int k = 0; k < s->g->n_inputs && status == QUERN_OK; k++) {
			h = mix(h, inputs[k]->dim, sizeof *inputs[k]->dim * (size_t)inputs[k]->rank);
			h = mix(h, inputs[k]->data, qn_tensor_bytes(inputs[k]));
		}
		s->v[i].content = h;
		qn_arena_release(&a);
	}
	if (status == QUERN_OK && s->n)
		qsort(s->v, s->n, sizeof *s->v, by_content);
	for (size_t i = 1; i < s->n && status == QUERN_OK; i++)
		s->v[i].rank = s->v[i - 1].rank + (s->v[i].content != s->v[i - 1].content);
	s->sorted = status == QUERN_OK;
	qn_arena_release(&a);
	return status;
}

size_t qn_samples_rank(const qn_samples *s, size_t i)
{
	return s->v[i].rank;
}
