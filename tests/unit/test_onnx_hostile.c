/* test_onnx_hostile.c - files that are no models, damaged models, exhausted memory, and tensor files. */
#include "onnx_build.h"

#include <sys/stat.h>
#include <unistd.h>

/* A model with something of everything: initializers of several forms, a constant, a function, a subgraph. */
static pb rich_model(void)
{
	pb g = graph_xy(), t = tensor("t", F32, "4"), s = {0}, f = {0}, then_body = {0}, else_body = {0};
	pb_add(&g, GRAPH_INIT, ramp("W", "4,4", 16));
	pb_bytes(&t, 4, (float[]){1, 2, 3, 4}, 16);
	pb_add(&g, GRAPH_INIT, t);
	pb_add(&s, 1, raw("sp", F32, "1", (float[]){5}, 4));
	pb_add(&s, 2, raw(NULL, I64, "1", (int64_t[]){2}, 8));
	pb_int(&s, 3, 4);
	pb_add(&g, GRAPH_SPARSE, s);
	pb_add(&g, GRAPH_INIT, raw("yes", BOOL, "", "\1", 1));
	pb_add(&g, GRAPH_NODE, with(node("Constant", NULL, NULL, "c"), attr_msg("value", A_TENSOR, 5, ramp(NULL, "4", 4))));
	pb_add(&g, GRAPH_NODE, node("MatMul", "mm", "x,W", "h"));
	pb_add(&then_body, GRAPH_NODE, node("Add", "a", "h,t", "th"));
	pb_add(&then_body, GRAPH_OUTPUT, value_info("th", F32, NULL));
	pb_add(&else_body, GRAPH_NODE, node("Add", "a", "h,sp", "el"));
	pb_add(&else_body, GRAPH_OUTPUT, value_info("el", F32, "n,4"));
	pb_add(&g, GRAPH_NODE,
		with(with(node("If", "if", "yes", "k"), attr_msg("then_branch", A_GRAPH, 6, then_body)),
			attr_msg("else_branch", A_GRAPH, 6, else_body)));
	pb call = node("F", "f", "k,c", "y");
	pb_str(&call, 7, "local");
	pb_add(&g, GRAPH_NODE, call);
	pb m = model(g);
	pb_add(&m, 8, opset("local", 1));
	pb_str(&f, 1, "F");
	pb_names(&f, 4, "a,b");
	pb_names(&f, 5, "r");
	pb_add(&f, 7, node("Add", "sum", "a,b", "r"));
	pb_str(&f, 10, "local");
	pb_add(&m, MODEL_FUNCTION, f);
	return m;
}

static pb copy(pb m, size_t n)
{
	pb c = {0};
	pb_put(&c, m.data, n);
	return c;
}

/* Every outcome but a crash, a read outside and a fault of ours is fine. */
static void survives(pb m)
{
	qn_status status = load_in(m, NULL);
	assert_true(status != QUERN_ERR_INTERNAL && status != QUERN_ERR_MEMORY);
	if (status == QUERN_OK)
		assert_int_equal(qn_graph_check(env.g), QUERN_OK);
	else
		assert_said("'model.onnx': ");
}

static void cut_at_every_byte(void **state)
{
	(void)state;
	pb m = rich_model();
	loads(copy(m, m.n));
	for (size_t n = 0; n < m.n; n++)
		survives(copy(m, n));
	free(m.data);
}

static void every_byte_changed(void **state)
{
	(void)state;
	static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x08, 0x20};
	pb m = rich_model();
	for (size_t i = 0; i < m.n; i++)
		for (size_t k = 0; k < QN_LEN(masks); k++) {
			pb c = copy(m, m.n);
			c.data[i] ^= masks[k];
			survives(c);
		}
	free(m.data);
}

static void junk(void **state)
{
	(void)state;
	uint64_t seed = 0x9e3779b97f4a7c15;
	for (int i = 0; i < 20000; i++) {
		uint8_t b[8];
		for (int k = 0; k < 8; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			b[k] = (uint8_t)(seed >> 56);
		}
		pb m = {0};
		pb_put(&m, b, 8);
		assert_int_not_equal(load_in(m, NULL), QUERN_OK);
		assert_said("'model.onnx': ");
	}
}

static void looks_like(const void *data, size_t n, const char *what)
{
	pb m = {0};
	pb_put(&m, data, n);
	refuses(m, "no ONNX model", "looks like", what);
}

static void other_kinds_of_file(void **state)
{
	(void)state;
	static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
	looks_like("", 0, "an empty file");
	looks_like("PK\3\4rest", 8, "a zip archive");
	looks_like(lfs, strlen(lfs), "Git LFS pointer");
	looks_like("<html><body>", 12, "HTML");
	looks_like("\n  <!DOCTYPE html>", 18, "HTML");
	looks_like("{\"a\": 1}", 8, "JSON");
	looks_like("\x08\0\0\0\0\0\0\0{\"a\":{}}", 16, "safetensors");
	looks_like("\x1f\x8b\x08\0", 4, "gzip");
	looks_like("GGUF\3\0\0\0", 8, "GGUF");
	looks_like("\x20\0\0\0ORTM", 8, "ONNX Runtime's own");
	looks_like("ir_version: 8\n", 14, "text");
	refuses((pb){0}, "empty");
}

static void damage_says_where(void **state)
{
	(void)state;
	pb m = {0};
	pb_int(&m, 1, 8);
	pb_varint(&m, 7 << 3 | 2); /* a graph of 100 bytes, of which there are none */
	pb_varint(&m, 100);
	refuses(m, "byte 2", "'graph'", "100 bytes", "0 are left");
	m = (pb){0};
	pb_put(&m, "\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13); /* a length of 2^64 - 1 */
	refuses(m, "byte 2", "'graph'", "18446744073709551615 bytes");
	m = (pb){0};
	pb_put(&m, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13); /* a number of twelve bytes */
	refuses(m, "byte 0", "'ir_version'", "does not end");
	m = (pb){0};
	pb_int(&m, 7, 1); /* the graph as a number */
	refuses(m, "byte 0", "'graph'", "wire type 0");
	m = (pb){0};
	pb_put(&m, "\x08\x08\x0b\x0c", 4); /* a group */
	refuses(m, "byte 2", "wire type 3");
	m = (pb){0};
	pb_int(&m, 1, 8);
	refuses(m, "no graph");
	m = model(graph_xy());
	pb_add(&m, 7, graph_xy());
	refuses(m, "'graph'", "twice");
	pb g = graph_xy(), t = tensor("w", I64, "1");
	pb_bytes(&t, 7, "\xff\xff", 2); /* a packed number that does not end */
	pb_add(&g, GRAPH_INIT, t);
	refuses(model(g), "malformed");
}

static void unknown_fields_are_ignored(void **state)
{
	(void)state;
	pb g = graph_xy(), n = node("Relu", "r", "x", "y");
	pb_int(&n, 1000, 5);
	pb_str(&n, 77, "\xff not text");
	pb_add(&g, GRAPH_NODE, n);
	pb_str(&g, 20, "later");
	pb m = model(g);
	pb_add(&m, 20, copy((pb){.data = (uint8_t[]){0xff, 0xff}}, 2)); /* training info: not looked into */
	pb_float(&m, 500, 1);
	loads(m);
}

static void message_recursion(void **state)
{
	(void)state;
	pb type = {0};
	for (int i = 0; i < 3000; i++) { /* sequence of sequence of ... */
		pb seq = {0}, outer = {0};
		pb_add(&seq, 1, type);
		pb_add(&outer, 4, seq);
		type = outer;
	}
	pb g = graph_xy(), info = {0};
	pb_str(&info, 1, "i");
	pb_add(&info, 2, type);
	pb_add(&g, GRAPH_INPUT, info);
	refuses(model(g), "nest deeper");
}

/* --- memory ---------------------------------------------------------------------------------------------------- */
static long budget;

static void *limited(void *user, void *ptr, size_t old_size, size_t new_size)
{
	(void)user, (void)old_size;
	if (!new_size) {
		free(ptr);
		return NULL;
	}
	return budget-- > 0 ? realloc(ptr, new_size) : NULL;
}

static qn_status guarded_load(const uint8_t *data, size_t n)
{
	QN_ENTER(&env.ctx, saved, buf);
	qn_status status = qn_onnx_load_bytes(&env.ctx, "model.onnx", data, n, NULL, &env.arena, &env.g);
	QN_LEAVE(&env.ctx, saved);
	return status;
}

static void out_of_memory_at_every_step(void **state)
{
	(void)state;
	pb m = rich_model();
	qn_status status = QUERN_ERR_MEMORY;
	long steps = 0;
	for (; status == QUERN_ERR_MEMORY; steps++) {
		begin();
		env.ctx.alloc = limited;
		budget = steps;
		status = guarded_load(m.data, m.n);
		unload();
	}
	assert_int_equal(status, QUERN_OK);
	assert_true(steps > 3);
	free(m.data);
}

/* --- files ------------------------------------------------------------------------------------------------------- */
static char path[64];

static void write_path(pb m)
{
	strcpy(path, "/tmp/quern-file-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, m.data, m.n), (ssize_t)m.n);
	close(fd);
	free(m.data);
	begin();
}

static void tensor_files(void **state)
{
	(void)state;
	qn_tensor *t;
	const char *name;
	write_path(ramp("in", "2,2", 4));
	assert_int_equal(qn_onnx_tensor_file(&env.ctx, path, &env.arena, &t, &name), QUERN_OK);
	unlink(path);
	assert_string_equal(name, "in");
	assert_int_equal(t->rank, 2);
	assert_true(qn_tensor_get(t, 3) == 3);
	pb seq = {0};
	pb_str(&seq, 1, "list");
	pb_int(&seq, 2, 1);
	pb_add(&seq, 3, ramp("in", "2", 2));
	write_path(seq);
	assert_int_equal(qn_onnx_tensor_file(&env.ctx, path, &env.arena, &t, &name), QUERN_ERR_UNSUPPORTED);
	unlink(path);
	assert_said(path);
	assert_said("sequence");
	write_path((pb){0});
	assert_int_equal(qn_onnx_tensor_file(&env.ctx, path, &env.arena, &t, &name), QUERN_ERR_FORMAT);
	unlink(path);
	assert_said("empty");
	write_path(tensor("s", STRING, "1"));
	assert_int_equal(qn_onnx_tensor_file(&env.ctx, path, &env.arena, &t, &name), QUERN_ERR_UNSUPPORTED);
	unlink(path);
	assert_said("string");
}

static void paths_that_are_no_files(void **state)
{
	(void)state;
	begin();
	assert_int_equal(qn_onnx_load(&env.ctx, "/tmp", &env.arena, &env.g), QUERN_ERR_IO);
	assert_said("'/tmp': is a directory");
	assert_int_equal(qn_onnx_load(&env.ctx, "nowhere/model.onnx", &env.arena, &env.g), QUERN_ERR_IO);
	assert_said("'nowhere/model.onnx': cannot be opened");
	strcpy(path, "/tmp/quern-pipe-XXXXXX");
	assert_non_null(mkdtemp(path));
	char pipe_path[96];
	snprintf(pipe_path, sizeof pipe_path, "%s/p", path);
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	assert_int_equal(qn_onnx_load(&env.ctx, pipe_path, &env.arena, &env.g), QUERN_ERR_IO);
	assert_said("not a regular file");
	unlink(pipe_path);
	rmdir(path);
	write_path((pb){0});
	assert_int_equal(qn_onnx_load(&env.ctx, path, &env.arena, &env.g), QUERN_ERR_FORMAT);
	assert_said("empty file");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(cut_at_every_byte, teardown),
		cmocka_unit_test_teardown(every_byte_changed, teardown),
		cmocka_unit_test_teardown(junk, teardown),
		cmocka_unit_test_teardown(other_kinds_of_file, teardown),
		cmocka_unit_test_teardown(damage_says_where, teardown),
		cmocka_unit_test_teardown(unknown_fields_are_ignored, teardown),
		cmocka_unit_test_teardown(message_recursion, teardown),
		cmocka_unit_test_teardown(out_of_memory_at_every_step, teardown),
		cmocka_unit_test_teardown(tensor_files, teardown),
		cmocka_unit_test_teardown(paths_that_are_no_files, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
