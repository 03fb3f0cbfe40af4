/* onnx_build.h - for the loader's tests: models written field by field, so that they can be wrong in any way, and a fixture
 * that loads them. Lists of names are one text, "a,b,,c". */
#ifndef QN_TEST_ONNX_BUILD_H
#define QN_TEST_ONNX_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "graph/onnx.h"
#include "graph/op.h"

/* ONNX data types and attribute kinds */
enum { F32 = 1, U8, I8, U16, I16, I32, I64, STRING, BOOL, F16, F64, U32, U64, C64, C128, BF16, F8 = 17, U4 = 21, I4, F4, U2 = 25, I2, F6 };
enum { A_FLOAT = 1, A_INT, A_STRING, A_TENSOR, A_GRAPH, A_FLOATS, A_INTS, A_STRINGS, A_SPARSE = 11 };
enum { GRAPH_NODE = 1, GRAPH_INIT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_SPARSE = 15 };
enum { MODEL_FUNCTION = 25 };

typedef struct pb {
	uint8_t *data;
	size_t n, cap;
} pb;

static inline void pb_put(pb *b, const void *data, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		b->data = realloc(b->data, b->cap);
		assert_non_null(b->data);
	}
	if (n)
		memcpy(b->data + b->n, data, n);
	b->n += n;
}

static inline void pb_varint(pb *b, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		pb_put(b, &(uint8_t){(uint8_t)(v | 0x80)}, 1);
	pb_put(b, &(uint8_t){(uint8_t)v}, 1);
}

static inline void pb_int(pb *b, unsigned field, int64_t v)
{
	pb_varint(b, (uint64_t)field << 3);
	pb_varint(b, (uint64_t)v);
}

static inline void pb_bytes(pb *b, unsigned field, const void *data, size_t n)
{
	pb_varint(b, (uint64_t)field << 3 | 2);
	pb_varint(b, n);
	pb_put(b, data, n);
}

static inline void pb_str(pb *b, unsigned field, const char *s)
{
	pb_bytes(b, field, s, strlen(s));
}

static inline void pb_float(pb *b, unsigned field, float v)
{
	pb_varint(b, (uint64_t)field << 3 | 5);
	pb_put(b, &v, 4);
}

/* Adds `child` and frees it. */
static inline void pb_add(pb *b, unsigned field, pb child)
{
	pb_bytes(b, field, child.data, child.n);
	free(child.data);
}

static inline void pb_names(pb *b, unsigned field, const char *list)
{
	if (!list)
		return;
	for (const char *p = list, *end;; p = end + 1) {
		end = strchr(p, ',');
		pb_bytes(b, field, p, end ? (size_t)(end - p) : strlen(p));
		if (!end)
			return;
	}
}

static inline pb node(const char *op, const char *name, const char *in, const char *out)
{
	pb n = {0};
	pb_names(&n, 1, in);
	pb_names(&n, 2, out);
	if (name)
		pb_str(&n, 3, name);
	pb_str(&n, 4, op);
	return n;
}

static inline pb attr(const char *name, int kind)
{
	pb a = {0};
	pb_str(&a, 1, name);
	pb_int(&a, 20, kind);
	return a;
}

static inline pb attr_int(const char *name, int64_t v)
{
	pb a = attr(name, A_INT);
	pb_int(&a, 3, v);
	return a;
}

static inline pb attr_float(const char *name, float v)
{
	pb a = attr(name, A_FLOAT);
	pb_float(&a, 2, v);
	return a;
}

static inline pb attr_ref(const char *name, int kind, const char *outer)
{
	pb a = attr(name, kind);
	pb_str(&a, 21, outer);
	return a;
}

static inline pb attr_msg(const char *name, int kind, unsigned field, pb m)
{
	pb a = attr(name, kind);
	pb_add(&a, field, m);
	return a;
}

/* `n` with one more attribute. */
static inline pb with(pb n, pb a)
{
	pb_add(&n, 5, a);
	return n;
}

/* dims as "2,3"; "" is rank 0 */
static inline pb tensor(const char *name, int type, const char *dims)
{
	pb t = {0};
	for (const char *p = dims; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		pb_int(&t, 1, strtoll(p, NULL, 10));
	pb_int(&t, 2, type);
	if (name)
		pb_str(&t, 8, name);
	return t;
}

static inline pb raw(const char *name, int type, const char *dims, const void *data, size_t n)
{
	pb t = tensor(name, type, dims);
	pb_bytes(&t, 9, data, n);
	return t;
}

/* f32 elements 0, 1, 2, ... as raw data */
static inline pb ramp(const char *name, const char *dims, size_t n)
{
	float v[4096];
	assert_true(n <= 4096);
	for (size_t i = 0; i < n; i++)
		v[i] = (float)i;
	return raw(name, F32, dims, v, n * 4);
}

static inline void external(pb *t, const char *key, const char *value)
{
	pb e = {0};
	pb_str(&e, 1, key);
	pb_str(&e, 2, value);
	pb_add(t, 13, e);
}

/* dims: numbers, names, or "" for one without either; dims NULL: no shape */
static inline pb value_info(const char *name, int type, const char *dims)
{
	pb t = {0}, tt = {0}, v = {0}, shape = {0};
	pb_int(&tt, 1, type);
	for (const char *p = dims; p && *dims;) {
		const char *end = strchr(p, ',');
		size_t n = end ? (size_t)(end - p) : strlen(p);
		pb d = {0};
		char *number_end;
		long long number = strtoll(p, &number_end, 10);
		if (n && *p != ' ' && number_end == p + n)
			pb_int(&d, 1, number);
		else if (n)
			pb_bytes(&d, 2, p, n);
		pb_add(&shape, 1, d);
		p = end ? end + 1 : NULL;
	}
	if (dims)
		pb_add(&tt, 2, shape);
	pb_add(&t, 1, tt);
	pb_str(&v, 1, name);
	pb_add(&v, 2, t);
	return v;
}

static inline pb opset(const char *domain, int64_t version)
{
	pb o = {0};
	if (domain)
		pb_str(&o, 1, domain);
	pb_int(&o, 2, version);
	return o;
}

/* IR 8, opset 17; a function or another import can be added behind it. */
static inline pb model(pb graph)
{
	pb m = {0};
	pb_int(&m, 1, 8);
	pb_add(&m, 7, graph);
	pb_add(&m, 8, opset(NULL, 17));
	return m;
}

/* A graph with input x [2,4] f32 and output y; the rest is up to the test. */
static inline pb graph_xy(void)
{
	pb g = {0};
	pb_str(&g, 2, "g");
	pb_add(&g, GRAPH_INPUT, value_info("x", F32, "2,4"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, "2,4"));
	return g;
}

/* --- loading ---------------------------------------------------------------------------------------------- */
static struct {
	qn_ctx ctx;
	qn_arena arena;
	qn_graph *g;
	uint8_t *bytes; /* exactly as large as the model, for the address sanitizer */
	char logged[4096];
} env;

static inline void keep_log(void *user, quern_log_level level, const char *text)
{
	(void)user;
	size_t n = strlen(env.logged);
	snprintf(env.logged + n, sizeof env.logged - n, "%s%s\n", level == QUERN_LOG_WARN ? "warning: " : "", text);
}

static inline void unload(void)
{
	if (env.arena.ctx)
		qn_arena_release(&env.arena);
	free(env.bytes);
	env.bytes = NULL;
	env.g = NULL;
}

static inline int teardown(void **state)
{
	(void)state;
	unload();
	return 0;
}

static inline void begin(void)
{
	unload();
	env.ctx = (qn_ctx){.log = keep_log};
	env.logged[0] = '\0';
	qn_arena_init(&env.arena, &env.ctx);
}

/* Loads a model and frees the writer's buffer. */
static inline qn_status load_in(pb m, const char *folder)
{
	begin();
	env.bytes = malloc(m.n ? m.n : 1);
	assert_non_null(env.bytes);
	if (m.n)
		memcpy(env.bytes, m.data, m.n);
	free(m.data);
	return qn_onnx_load_bytes(&env.ctx, "model.onnx", env.bytes, m.n, folder, &env.arena, &env.g);
}

static inline void loads(pb m)
{
	if (load_in(m, NULL) != QUERN_OK || qn_graph_check(env.g) != QUERN_OK)
		fail_msg("%s", env.ctx.message);
}

static inline void assert_said(const char *text)
{
	if (!strstr(env.ctx.message, text))
		fail_msg("message '%s' lacks '%s'", env.ctx.message, text);
}

/* Every text of the NULL-ended list must be in the message. */
#define refuses(m, ...) check_refused(load_in((m), NULL), (const char *const[]){"'model.onnx'", __VA_ARGS__, NULL})
static inline void check_refused(qn_status status, const char *const *texts)
{
	if (status == QUERN_OK)
		fail_msg("loads, but should say '%s'", texts[1]);
	assert_true(status != QUERN_ERR_INTERNAL && status != QUERN_ERR_MEMORY);
	for (; *texts; texts++)
		assert_said(*texts);
}

static inline qn_value *value(const char *name)
{
	qn_value *v = qn_graph_find_value(env.g, name);
	if (!v)
		fail_msg("no value '%s'", name);
	return v;
}

static inline const qn_tensor *content(const char *name)
{
	const qn_value *v = value(name);
	assert_true(v->is_const);
	assert_non_null(v->fact.value);
	return v->fact.value;
}

/* The graph as "op(in,in)->out;" a node, in order. */
static inline const char *listing(const qn_graph *g)
{
	qn_text t = {.arena = g->arena};
	qn_text_add(&t, "%s", "");
	for (const qn_node *n = g->first; n; n = n->next) {
		qn_text_add(&t, "%s(", n->op_type);
		for (int i = 0; i < n->n_in; i++)
			qn_text_add(&t, "%s%s", i ? "," : "", n->in[i] ? n->in[i]->name : "");
		qn_text_add(&t, ")->");
		for (int i = 0; i < n->n_out; i++)
			qn_text_add(&t, "%s%s", i ? "," : "", n->out[i] ? n->out[i]->name : "");
		qn_text_add(&t, ";");
	}
	return t.s;
}

#endif
