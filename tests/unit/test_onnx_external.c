/* test_onnx_external.c - tensor data in files: what is found, what is refused before it is opened, what is too short. */
#include "onnx_build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64]; /* the model's */
static char outside[64];

static const char *path_in(const char *dir, const char *name)
{
	static char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void write_file(const char *path, const void *data, size_t n)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	fclose(f);
}

static int make_folders(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/quern-external-XXXXXX");
	strcpy(outside, "/tmp/quern-outside-XXXXXX");
	if (!mkdtemp(folder) || !mkdtemp(outside))
		return -1;
	return mkdir(path_in(folder, "sub"), 0700);
}

static int remove_folders(void **state)
{
	(void)state;
	char command[256];
	snprintf(command, sizeof command, "rm -rf '%s' '%s'", folder, outside);
	return system(command);
}

/* Pairs of key and value, ended by NULL, for a tensor w of f32. */
static pb stored(const char *dims, ...)
{
	pb t = tensor("w", F32, dims);
	pb_int(&t, 14, 1);
	va_list args;
	va_start(args, dims);
	for (const char *key; (key = va_arg(args, const char *));)
		external(&t, key, va_arg(args, const char *));
	va_end(args);
	return t;
}

static pb using(pb t)
{
	pb g = {0};
	pb_add(&g, GRAPH_INIT, t);
	pb_add(&g, GRAPH_NODE, node("Identity", "id", "w", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	return model(g);
}

static void check(pb t, float first)
{
	if (load_in(using(t), folder) != QUERN_OK)
		fail_msg("%s", env.ctx.message);
	assert_true(qn_tensor_get(content("w"), 0) == (double)first);
}

#define refuses_in(t, ...) check_refused(load_in(using(t), folder), (const char *const[]){"'model.onnx'", __VA_ARGS__, NULL})

static void write_ramp(const char *name, int n)
{
	float v[256];
	for (int i = 0; i < n; i++)
		v[i] = (float)i;
	write_file(path_in(folder, name), v, (size_t)n * 4);
}

static void length_absent_or_zero(void **state)
{
	(void)state;
	write_ramp("w.bin", 4);
	check(stored("2,2", "location", "w.bin", NULL), 0);
	check(stored("2,2", "location", "w.bin", "length", "0", NULL), 0);
	check(stored("2", "offset", "8", "location", "w.bin", NULL), 2);
	check(stored("2,2", "length", "16", "location", "w.bin", "offset", "0", "checksum", "x", NULL), 0);
	assert_string_equal(env.logged, "");
	check(stored("2,2", "location", "w.bin", "foo", "bar", NULL), 0);
	assert_non_null(strstr(env.logged, "'foo'"));
	check(stored("2", "location", "./w.bin", "offset", "4", NULL), 1);
	write_ramp("sub/v.bin", 4);
	check(stored("1", "location", "sub/v.bin", "offset", "12", "length", "0", NULL), 3);
}

static void shared_ranges_map_once(void **state)
{
	(void)state;
	write_ramp("w.bin", 64);
	pb g = {0};
	const char *const at[] = {"128", "0", "64", "0"}, *const names[] = {"a", "b", "c", "d"};
	for (int i = 0; i < 4; i++) {
		pb t = tensor(names[i], F32, "16");
		pb_int(&t, 14, 1);
		external(&t, "location", i == 3 ? "./w.bin" : "w.bin");
		external(&t, "offset", at[i]);
		pb_add(&g, GRAPH_INIT, t);
	}
	pb_add(&g, GRAPH_NODE, node("Sum", "s", "a,b,c,d", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	if (load_in(model(g), folder) != QUERN_OK)
		fail_msg("%s", env.ctx.message);
	const uint8_t *b = content("b")->data;
	assert_ptr_equal(content("a")->data, b + 128);
	assert_ptr_equal(content("c")->data, b + 64);
	assert_ptr_equal(content("d")->data, b); /* the other spelling is the same file */
}

static void constant_nodes(void **state)
{
	(void)state;
	write_ramp("w.bin", 4);
	pb t = stored("2,2", "location", "w.bin", NULL), g = {0};
	pb_add(&g, GRAPH_NODE, with(node("Constant", NULL, NULL, "c"), attr_msg("value", A_TENSOR, 5, t)));
	pb_add(&g, GRAPH_NODE, node("Identity", "id", "c", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	if (load_in(model(g), folder) != QUERN_OK)
		fail_msg("%s", env.ctx.message);
	assert_true(qn_tensor_get(content("c"), 3) == 3);
}

static void empty_and_packed(void **state)
{
	(void)state;
	if (load_in(using(stored("0,64", "location", "nowhere.bin", NULL)), folder) != QUERN_OK)
		fail_msg("%s", env.ctx.message);
	assert_int_equal(qn_tensor_count(content("w")), 0);
	write_file(path_in(folder, "q.bin"), "\x8f\x07", 2);
	pb t = tensor("w", I4, "3");
	pb_int(&t, 14, 1);
	external(&t, "location", "q.bin");
	external(&t, "length", "2");
	check(t, -1);
}

static void locations_outside_the_folder(void **state)
{
	(void)state;
	write_ramp("w.bin", 4);
	write_file(path_in(outside, "x"), "0123456789abcdef", 16);
	const char *const bad[] = {"../x", "sub/../../x", "..", "sub/..", "/etc/passwd", "..\\x", "sub\\w.bin", "C:/w.bin", "C:w.bin", ""};
	for (size_t i = 0; i < QN_LEN(bad); i++)
		refuses_in(stored("4", "location", bad[i], NULL), "tensor 'w'", bad[i], "external location");
	refuses_in(stored("4", NULL, NULL), "tensor 'w'", "external location");
	refuses_in(stored("4", "location", "w.bin", "location", "v.bin", NULL), "'w.bin'", "'v.bin'");
	refuses_in(stored("4", "location", "sub", NULL), "tensor 'w'", "'sub'", "directory");
	refuses_in(stored("4", "location", "none.bin", NULL), "tensor 'w'", "'none.bin'", "cannot be opened");
}

static void links_and_pipes(void **state)
{
	(void)state;
	char target[128];
	write_ramp("w.bin", 4);
	write_file(path_in(outside, "x"), "0123456789abcdef", 16);
	snprintf(target, sizeof target, "%s/x", outside);
	assert_int_equal(symlink(target, path_in(folder, "link.bin")), 0);
	refuses_in(stored("4", "location", "link.bin", NULL), "tensor 'w'", "'link.bin'", "link out of the model's folder");
	assert_int_equal(symlink(outside, path_in(folder, "linked")), 0);
	refuses_in(stored("4", "location", "linked/x", NULL), "'linked/x'", "link out of the model's folder");
	assert_int_equal(symlink("w.bin", path_in(folder, "inner.bin")), 0);
	check(stored("4", "location", "inner.bin", NULL), 0);
	assert_int_equal(mkfifo(path_in(folder, "pipe"), 0600), 0);
	refuses_in(stored("4", "location", "pipe", NULL), "tensor 'w'", "'pipe'", "not a regular file");
	char longer[80]; /* a folder whose name begins with the model's folder is not inside it */
	snprintf(longer, sizeof longer, "%s-more", folder);
	assert_int_equal(mkdir(longer, 0700), 0);
	write_file(path_in(longer, "x"), "0123456789abcdef", 16);
	snprintf(target, sizeof target, "%s/x", longer);
	assert_int_equal(symlink(target, path_in(folder, "near.bin")), 0);
	refuses_in(stored("4", "location", "near.bin", NULL), "'near.bin'", "link out of the model's folder");
	unlink(path_in(longer, "x"));
	rmdir(longer);
}

static void offsets(void **state)
{
	(void)state;
	write_ramp("w.bin", 4);
	const char *const bad[] = {"-4", "12abc", "", "+4", " 4", "0x10", "18446744073709551616", "99999999999999999999999"};
	for (size_t i = 0; i < QN_LEN(bad); i++) {
		refuses_in(stored("4", "location", "w.bin", "offset", bad[i], NULL), "tensor 'w'", "offset", bad[i]);
		refuses_in(stored("4", "location", "w.bin", "length", bad[i], NULL), "tensor 'w'", "length", bad[i]);
	}
	refuses_in(
		stored("4", "location", "w.bin", "offset", "18446744073709551612", NULL), "tensor 'w'", "18446744073709551612", "16 bytes");
	refuses_in(stored("4", "location", "w.bin", "offset", "18446744073709551608", "length", "16", NULL), "tensor 'w'", "16 bytes");
	refuses_in(stored("4", "location", "w.bin", "length", "12", NULL), "tensor 'w'", "12 bytes", "need 16");
	refuses_in(stored("4", "location", "w.bin", "length", "20", NULL), "tensor 'w'", "20 bytes", "need 16");
}

static void beyond_four_gib(void **state)
{
	(void)state;
	if (sizeof(size_t) < 8)
		skip();
	int fd = open(path_in(folder, "big.bin"), O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0);
	float v[4] = {7, 8, 9, 10};
	assert_int_equal(ftruncate(fd, INT64_C(5) << 30), 0);
	assert_int_equal(pwrite(fd, v, sizeof v, INT64_C(9) << 29), (ssize_t)sizeof v);
	close(fd);
	check(stored("4", "location", "big.bin", "offset", "4831838208", "length", "16", NULL), 7);
	assert_true(qn_tensor_get(content("w"), 3) == 10);
	unlink(path_in(folder, "big.bin"));
}

static void cut_short(void **state)
{
	(void)state;
	uint8_t zeros[64] = {0};
	write_file(path_in(folder, "w.bin"), zeros, 15);
	refuses_in(stored("4", "location", "w.bin", NULL), "tensor 'w'", "16 bytes", "'w.bin'", "15 bytes");
	write_file(path_in(folder, "w.bin"), zeros, 64);
	refuses_in(stored("4", "location", "w.bin", "offset", "49", NULL), "tensor 'w'", "offset 49", "64 bytes");
	refuses_in(stored("1", "location", "w.bin", "offset", "64", NULL), "tensor 'w'", "offset 64");
	write_file(path_in(folder, "w.bin"), zeros, 0);
	refuses_in(stored("1", "location", "w.bin", NULL), "tensor 'w'", "has 0 bytes");
}

static void inline_and_external(void **state)
{
	(void)state;
	write_ramp("w.bin", 4);
	pb t = stored("1", "location", "w.bin", NULL);
	pb_bytes(&t, 9, "\0\0\0\0", 4);
	refuses_in(t, "tensor 'w'", "both in the model and in an external file");
	pb u = raw("w", F32, "1", "\0\0\0\0", 4);
	pb_int(&u, 14, 7);
	refuses_in(u, "tensor 'w'", "data location 7");
	check_refused(load_in(using(stored("1", "location", "w.bin", NULL)), NULL),
		(const char *const[]){"model.onnx", "'w.bin'", "folder", NULL});
}

/* From a file: the folder is the model's own, wherever the program was started. */
static void beside_the_model_file(void **state)
{
	(void)state;
	write_ramp("w.bin", 4);
	pb m = using(stored("4", "location", "w.bin", NULL));
	write_file(path_in(folder, "model.onnx"), m.data, m.n);
	free(m.data);
	begin();
	if (qn_onnx_load(&env.ctx, path_in(folder, "model.onnx"), &env.arena, &env.g) != QUERN_OK)
		fail_msg("%s", env.ctx.message);
	assert_true(qn_tensor_get(content("w"), 2) == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(length_absent_or_zero, teardown),
		cmocka_unit_test_teardown(shared_ranges_map_once, teardown),
		cmocka_unit_test_teardown(constant_nodes, teardown),
		cmocka_unit_test_teardown(empty_and_packed, teardown),
		cmocka_unit_test_teardown(locations_outside_the_folder, teardown),
		cmocka_unit_test_teardown(links_and_pipes, teardown),
		cmocka_unit_test_teardown(offsets, teardown),
		cmocka_unit_test_teardown(beyond_four_gib, teardown),
		cmocka_unit_test_teardown(cut_short, teardown),
		cmocka_unit_test_teardown(inline_and_external, teardown),
		cmocka_unit_test_teardown(beside_the_model_file, teardown),
	};
	return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
