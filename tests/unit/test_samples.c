/* test_samples.c - samples are found, read and refused by name; states that are not given start empty. */
#include "tests/unit/graph_text.h"

#include "graph/npz.h"
#include "graph/samples.h"

#include <unistd.h>

static char folder[64];
static char logged[512];

static void on_log(void *user, quern_log_level level, const char *text)
{
	(void)user;
	(void)level;
	snprintf(logged, sizeof logged, "%s", text);
}

static int setup(void **state)
{
	op_setup(state);
	ctx.log = on_log;
	logged[0] = 0;
	strcpy(folder, "/tmp/quern_samples_XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[96];
	snprintf(command, sizeof command, "rm -r %s", folder);
	ctx.log = NULL;
	op_teardown(state);
	return system(command);
}

static const char *in_folder(const char *name)
{
	return qn_arena_printf(&arena, "%s/%s", folder, name);
}

static void put(const char *name, const char *const *names, const qn_tensor *t, int n)
{
	ctx.n_sources = 0; /* it may have been read before: here it is made anew */
	if (qn_npz_write(&ctx, in_folder(name), names, t, n) != QUERN_OK)
		fail_msg("%s", ctx.message);
}

static qn_tensor ints(qn_dtype type, int64_t rows, int64_t cols, int64_t first)
{
	int64_t dim[] = {rows, cols};
	qn_tensor *t = qn_tensor_new(&arena, type, 2, dim);
	for (int64_t i = 0; i < rows * cols; i++)
		qn_tensor_set(op_data(t), type, i, (double)(first + i));
	return *t;
}

static qn_samples *opened(const char *path)
{
	qn_samples *s;
	if (qn_samples_open(graph, path, &arena, &s) != QUERN_OK)
		fail_msg("%s", ctx.message);
	return s;
}

static void fails(qn_samples *s, size_t i, qn_status status, const char *first, const char *second)
{
	const qn_tensor *in[8];
	assert_int_equal(qn_samples_read(s, i, &arena, in), status);
	if (!strstr(ctx.message, first) || !strstr(ctx.message, second))
		fail_msg("'%s' does not say '%s' and '%s'", ctx.message, first, second);
}

static const char two_inputs[] = "input ids i64[B,S]\n input mask i64[B,S]\n y = Add(ids, mask)\n output y\n";
static const char *const both[] = {"ids", "mask", "more"};

static void a_folder(void **state)
{
	(void)state;
	text_graph(two_inputs);
	for (int i = 0; i < 3; i++) {
		qn_tensor t[] = {ints(i ? QN_I32 : QN_I64, 1, 3 + i, 10 * i), ints(QN_I64, 1, 3 + i, 0)};
		put(qn_arena_printf(&arena, i == 1 ? "s1.NPZ" : "s%d.npz", 2 - i), both, t, 2);
		put(qn_arena_printf(&arena, "expected_%d.npz", i), both, t, 1);
	}
	qn_samples *s = opened(folder);
	assert_int_equal(qn_samples_count(s), 3);
	for (size_t i = 0; i < 3; i++) { /* in name order; int32 as the graph's int64 */
		const qn_tensor *in[2];
		assert_int_equal(qn_samples_read(s, i, &arena, in), QUERN_OK);
		assert_int_equal(in[0]->type, QN_I64);
		assert_int_equal(in[0]->dim[1], 5 - (int64_t)i);
		assert_int_equal(qn_tensor_get_i64(in[0], 0), 20 - 10 * (int64_t)i);
	}
	assert_int_equal(qn_samples_count(opened(in_folder("s1.NPZ"))), 1);
}

static void wrong_samples(void **state)
{
	(void)state;
	text_graph(two_inputs);
	int64_t one[] = {3};
	qn_tensor t[] = {ints(QN_I64, 1, 3, 0), ints(QN_I64, 1, 3, 0), ints(QN_I64, 1, 3, 0)};
	put("extra.npz", both, t, 3);
	put("missing.npz", both, t, 1);
	qn_tensor floats[] = {t[0], *qn_tensor_new(&arena, QN_F32, 2, t[0].dim)};
	put("type.npz", both, floats, 2);
	qn_tensor flat[] = {t[0], *qn_tensor_new(&arena, QN_I64, 1, one)};
	put("rank.npz", both, flat, 2);
	fails(opened(in_folder("extra.npz")), 0, QUERN_ERR_CONFIG, "extra.npz", "'more'");
	fails(opened(in_folder("missing.npz")), 0, QUERN_ERR_CONFIG, "missing.npz", "'mask'");
	fails(opened(in_folder("type.npz")), 0, QUERN_ERR_CONFIG, "type.npz", "'mask' is f32");
	static const char *const again[] = {"ids", "mask", "ids"};
	put("twice.npz", again, t, 3);
	fails(opened(in_folder("twice.npz")), 0, QUERN_ERR_FORMAT, "twice.npz", "'ids' is there twice");
	fails(opened(in_folder("rank.npz")), 0, QUERN_ERR_SHAPE, "rank.npz", "'mask' has rank 1");
	qn_samples *s;
	assert_int_not_equal(qn_samples_open(graph, in_folder("nowhere"), &arena, &s), QUERN_OK);
	assert_non_null(strstr(ctx.message, "nowhere"));
	assert_int_equal(rmdir(in_folder("empty")), -1);
	assert_int_equal(system(qn_arena_printf(&arena, "mkdir %s", in_folder("empty"))), 0);
	assert_int_equal(qn_samples_open(graph, in_folder("empty"), &arena, &s), QUERN_ERR_CONFIG);
	assert_non_null(strstr(ctx.message, "neither .npz files nor test_data_set folders"));
}

/* Nothing at all is no sample; one empty input beside others may mean something. */
static void no_elements(void **state)
{
	(void)state;
	text_graph(two_inputs);
	qn_tensor t[] = {ints(QN_I64, 1, 0, 0), ints(QN_I64, 1, 0, 0)};
	put("none.npz", both, t, 2);
	fails(opened(in_folder("none.npz")), 0, QUERN_ERR_CONFIG, "none.npz' is empty", "have no elements");
	const qn_tensor *in[2];
	t[1] = ints(QN_I64, 1, 3, 0);
	put("one.npz", both, t, 2);
	assert_int_equal(qn_samples_read(opened(in_folder("one.npz")), 0, &arena, in), QUERN_OK);
}

static void integers_that_do_not_fit(void **state)
{
	(void)state;
	text_graph("input ids i32[B,S]\n y = Identity(ids)\n output y\n");
	qn_tensor t = ints(QN_I64, 1, 2, (int64_t)1 << 33);
	put("wide.npz", both, &t, 1);
	fails(opened(in_folder("wide.npz")), 0, QUERN_ERR_CONFIG, "wide.npz", "8589934592");
}

/* Keys of the past: absent, of length 0, of length 3, and with heads that the graph does not have. */
static void decoder_state(void **state)
{
	(void)state;
	text_graph("input x f32[B,2,S,8]\n input past f32[B,2,P,8]\n const w f32[8,4]\n all = Concat(past, x) axis=2\n y = MatMul(all, "
		   "w)\n output y\n");
	for (int i = 0; i < graph->n_outputs; i++)
		graph->outputs[i]->fact = (qn_fact){.type = QN_F32, .shape = {.rank = 4}};
	static const char *const names[] = {"x", "past"};
	static const int64_t lengths[] = {0, 3, 3};
	int64_t x_dim[] = {1, 2, 4, 8};
	qn_tensor t[] = {*qn_tensor_new(&arena, QN_F32, 4, x_dim), {0}};
	qn_samples *s = qn_samples_memory(graph, &arena);
	const qn_tensor *none[] = {&t[0], NULL}, *in[2];
	assert_int_equal(qn_samples_add(s, none), QUERN_OK);
	assert_int_equal(qn_samples_read(s, 0, &arena, in), QUERN_OK);
	assert_int_equal(in[1]->dim[0], 1);
	assert_int_equal(in[1]->dim[1], 2);
	assert_int_equal(in[1]->dim[2], 0);
	assert_non_null(strstr(logged, "'past'"));
	for (int i = 0; i < 3; i++) {
		int64_t dim[] = {1, i == 2 ? 5 : 2, lengths[i], 8};
		t[1] = *qn_tensor_new(&arena, QN_F32, 4, dim);
		put("p.npz", names, t, 2);
		qn_samples *one = opened(in_folder("p.npz"));
		qn_tensor y;
		assert_int_equal(qn_samples_read(one, 0, &arena, in), QUERN_OK);
		qn_status status = qn_exec_run(&ctx, graph, in, &arena, &y, NULL, NULL);
		assert_int_equal(status, i == 2 ? QUERN_ERR_SHAPE : QUERN_OK);
		if (i == 2)
			assert_non_null(strstr(ctx.message, "'past': axis 1 is 5"));
		else
			assert_int_equal(y.dim[2], 4 + lengths[i]);
	}
	/* the only input, and one that no Concat takes, are no states */
	const qn_tensor *nothing[] = {NULL, NULL};
	assert_int_equal(qn_samples_add(s, nothing), QUERN_OK);
	fails(s, 1, QUERN_ERR_CONFIG, "sample 1", "has no input 'x'");
}

static void order_by_content(void **state)
{
	(void)state;
	text_graph(two_inputs);
	int64_t seen[2][4];
	for (int turn = 0; turn < 2; turn++) {
		qn_samples *s = qn_samples_memory(graph, &arena);
		for (int i = 0; i < 4; i++) {
			int k = turn ? 3 - i : i;
			qn_tensor t = ints(QN_I64, 1, 3, k == 3 ? 0 : 100 * k); /* the last is the first once more */
			const qn_tensor *in[] = {&t, &t};
			assert_int_equal(qn_samples_add(s, in), QUERN_OK);
		}
		assert_int_equal(qn_samples_sort(s), QUERN_OK);
		for (size_t i = 0; i < 4; i++) {
			const qn_tensor *in[2];
			assert_int_equal(qn_samples_read(s, i, &arena, in), QUERN_OK);
			seen[turn][i] = qn_tensor_get_i64(in[0], 0);
			assert_true(!i || (seen[turn][i] == seen[turn][i - 1]) == (qn_samples_rank(s, i) == qn_samples_rank(s, i - 1)));
		}
		assert_int_equal(qn_samples_rank(s, 3), 2);
	}
	assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
}

/* Their folder was read: what lies in it under a sample's name is not written over, other files are. */
static void samples_are_spared(void **state)
{
	(void)state;
	text_graph(two_inputs);
	qn_tensor t[] = {ints(QN_I64, 1, 3, 0), ints(QN_I64, 1, 3, 0)};
	put("one.npz", both, t, 2);
	opened(folder);
	assert_int_equal(qn_source_spare(&ctx, in_folder("one.npz")), QUERN_ERR_CONFIG);
	assert_non_null(strstr(ctx.message, "one.npz' is a file that was read"));
	assert_int_equal(qn_source_spare(&ctx, in_folder("two.npz")), QUERN_OK);
	assert_int_equal(system(qn_arena_printf(&arena, "touch %s", in_folder("notes.json"))), 0);
	assert_int_equal(qn_source_spare(&ctx, in_folder("notes.json")), QUERN_OK);
}

/* Files of a test_data_set are numbered as the graph's inputs are. */
static void put_tensor(const char *file, const char *name)
{
	static const uint8_t of_one_row[] = {0x08, 1, 0x08, 2, 0x10, 7, 0x3a, 2, 5, 6}; /* dims 1 and 2, type int64, the elements 5 and 6 */
	FILE *f = fopen(in_folder(file), "wb");
	assert_non_null(f);
	fwrite(of_one_row, 1, sizeof of_one_row, f);
	fprintf(f, "\x42%c%s", (int)strlen(name), name); /* the tensor's name */
	assert_int_equal(fclose(f), 0);
}

static void names_in_a_data_set(void **state)
{
	(void)state;
	text_graph(two_inputs);
	const qn_tensor *in[2];
	put_tensor("input_0.pb", "anything");
	put_tensor("input_1.pb", "mask");
	assert_int_equal(qn_samples_read(opened(folder), 0, &arena, in), QUERN_OK);
	assert_int_equal(qn_tensor_get_i64(in[1], 1), 6);
	put_tensor("input_0.pb", "mask");
	ctx.n_sources = 0;
	fails(opened(folder), 0, QUERN_ERR_CONFIG, "input_0.pb is called 'mask', which is input 1", "input 0 is 'ids'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_samples, setup, teardown),
		cmocka_unit_test_setup_teardown(no_elements, setup, teardown),
		cmocka_unit_test_setup_teardown(integers_that_do_not_fit, setup, teardown),
		cmocka_unit_test_setup_teardown(decoder_state, setup, teardown),
		cmocka_unit_test_setup_teardown(order_by_content, setup, teardown),
		cmocka_unit_test_setup_teardown(names_in_a_data_set, setup, teardown),
		cmocka_unit_test_setup_teardown(samples_are_spared, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
