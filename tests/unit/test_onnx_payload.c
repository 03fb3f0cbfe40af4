/* test_onnx_payload.c - elements of tensors: every type and field, dims against bytes, sparse and packed forms. */
#include "onnx_build.h"

/* A model that uses an initializer; Identity takes any type. */
static pb using(pb t, const char *name)
{
	pb g = {0};
	pb_add(&g, GRAPH_INIT, t);
	pb_add(&g, GRAPH_NODE, node("Identity", "id", name, "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	return model(g);
}

static void check(pb t, qn_dtype type, int n, const double *want)
{
	loads(using(t, "w"));
	const qn_tensor *w = content("w");
	assert_int_equal(w->type, type);
	assert_int_equal(qn_tensor_count(w), n);
	for (int i = 0; i < n; i++)
		if (qn_tensor_get(w, i) != want[i])
			fail_msg("%s: element %d is %g, not %g", qn_dtype_name(type), i, qn_tensor_get(w, i), want[i]);
	assert_string_equal(value("w")->weight, "w");
}

#define WANT(...)                                                                                                                          \
	(int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[])                                                          \
	{                                                                                                                                  \
		__VA_ARGS__                                                                                                                \
	}

/* Entries of a typed field, packed in one record or one record each. */
static pb typed(int type, const char *dims, unsigned field, bool packed, int n, const int64_t *v)
{
	pb t = tensor("w", type, dims), list = {0};
	for (int i = 0; i < n; i++) {
		if (packed)
			pb_varint(&list, (uint64_t)v[i]);
		else
			pb_int(&t, field, v[i]);
	}
	if (packed)
		pb_add(&t, field, list);
	return t;
}
#define INTS(...)                                                                                                                          \
	(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                                       \
	{                                                                                                                                  \
		__VA_ARGS__                                                                                                                \
	}

static void every_type_raw(void **state)
{
	(void)state;
	check(raw("w", F32, "2", (float[]){1.5f, -2}, 8), QN_F32, WANT(1.5, -2));
	check(raw("w", F64, "2", (double[]){1e300, -2}, 16), QN_F64, WANT(1e300, -2));
	check(raw("w", F16, "2", (uint16_t[]){0x3c00, 0xc000}, 4), QN_F16, WANT(1, -2));
	check(raw("w", BF16, "2", (uint16_t[]){0x3f80, 0xc000}, 4), QN_BF16, WANT(1, -2));
	check(raw("w", I8, "3", (int8_t[]){1, -128, 127}, 3), QN_I8, WANT(1, -128, 127));
	check(raw("w", U8, "2", (uint8_t[]){1, 200}, 2), QN_U8, WANT(1, 200));
	check(raw("w", I16, "2", (int16_t[]){1, -300}, 4), QN_I16, WANT(1, -300));
	check(raw("w", U16, "2", (uint16_t[]){1, 65535}, 4), QN_U16, WANT(1, 65535));
	check(raw("w", I32, "2", (int32_t[]){1, -70000}, 8), QN_I32, WANT(1, -70000));
	check(raw("w", U32, "2", (uint32_t[]){1, 4000000000u}, 8), QN_U32, WANT(1, 4e9));
	check(raw("w", I64, "2", (int64_t[]){1, -5000000000}, 16), QN_I64, WANT(1, -5e9));
	check(raw("w", U64, "2", (uint64_t[]){1, 5000000000}, 16), QN_U64, WANT(1, 5e9));
	check(raw("w", BOOL, "3", (uint8_t[]){1, 0, 7}, 3), QN_BOOL, WANT(1, 0, 1));
	check(raw("w", F32, "", (float[]){3}, 4), QN_F32, WANT(3));
}

static void every_type_typed(void **state)
{
	(void)state;
	for (int packed = 0; packed < 2; packed++) {
		check(typed(I8, "3", 5, packed, INTS(1, -128, 127)), QN_I8, WANT(1, -128, 127));
		check(typed(U8, "2", 5, packed, INTS(1, 200)), QN_U8, WANT(1, 200));
		check(typed(I16, "2", 5, packed, INTS(1, -300)), QN_I16, WANT(1, -300));
		check(typed(U16, "2", 5, packed, INTS(1, 65535)), QN_U16, WANT(1, 65535));
		check(typed(I32, "2", 5, packed, INTS(1, -70000)), QN_I32, WANT(1, -70000));
		check(typed(BOOL, "2", 5, packed, INTS(1, 0)), QN_BOOL, WANT(1, 0));
		check(typed(F16, "2", 5, packed, INTS(0x3c00, 0xc000)), QN_F16, WANT(1, -2));
		check(typed(BF16, "2", 5, packed, INTS(0x3f80, 0xc000)), QN_BF16, WANT(1, -2));
		check(typed(I64, "2", 7, packed, INTS(1, -5000000000)), QN_I64, WANT(1, -5e9));
		check(typed(U32, "2", 11, packed, INTS(1, 4000000000)), QN_U32, WANT(1, 4e9));
		check(typed(U64, "2", 11, packed, INTS(1, 5000000000)), QN_U64, WANT(1, 5e9));
	}
	pb t = tensor("w", F32, "3"), d = tensor("w", F64, "1");
	pb_bytes(&t, 4, (float[]){1.5f, 2.5f}, 8);
	pb_float(&t, 4, 3.5f); /* packed and single records of one field */
	check(t, QN_F32, WANT(1.5, 2.5, 3.5));
	pb_bytes(&d, 10, (double[]){1e-300}, 8);
	check(d, QN_F64, WANT(1e-300));
}

static void packed_elements(void **state)
{
	(void)state;
	check(raw("w", I4, "3", (uint8_t[]){0x8f, 0x07}, 2), QN_I4, WANT(-1, -8, 7));
	check(raw("w", U4, "3", (uint8_t[]){0x8f, 0x07}, 2), QN_U4, WANT(15, 8, 7));
	check(raw("w", I2, "5", (uint8_t[]){0xe4, 0x02}, 2), QN_I2, WANT(0, 1, -2, -1, -2));
	check(raw("w", U2, "5", (uint8_t[]){0xe4, 0x02}, 2), QN_U2, WANT(0, 1, 2, 3, 2));
	check(raw("w", F8, "2", (uint8_t[]){0x38, 0xfe}, 2), QN_F8E4M3FN, WANT(1, -448));
	check(typed(F8, "1", 5, true, INTS(0x30)), QN_F8E4M3FN, WANT(0.5));
	check(raw("w", F4, "3", (uint8_t[]){0x9f, 0x02}, 2), QN_F4E2M1, WANT(-6, -0.5, 1));
	check(typed(I4, "3", 5, true, INTS(0x8f, 0x07)), QN_I4, WANT(-1, -8, 7));
	check(typed(U4, "3", 5, false, INTS(-113, 7)), QN_U4, WANT(15, 8, 7)); /* the byte 0x8f as a signed number */
	refuses(using(raw("w", I4, "3", "\1", 1), "w"), "'w'", "1 bytes", "need 2");
	refuses(using(typed(U4, "4", 5, true, INTS(3)), "w"), "'w'", "1 entries", "needs 2");
}

static void entries_out_of_range(void **state)
{
	(void)state;
	refuses(using(typed(I8, "1", 5, true, INTS(128)), "w"), "'w'", "entry 0", "128", "int8");
	refuses(using(typed(U8, "2", 5, true, INTS(0, -1)), "w"), "'w'", "entry 1", "-1", "uint8");
	refuses(using(typed(U16, "1", 5, true, INTS(65536)), "w"), "65536", "uint16");
	refuses(using(typed(I16, "1", 5, true, INTS(-32769)), "w"), "-32769", "int16");
	refuses(using(typed(BOOL, "1", 5, true, INTS(2)), "w"), "2", "bool");
	refuses(using(typed(F16, "1", 5, true, INTS(65536)), "w"), "65536", "float16");
	refuses(using(typed(U32, "1", 11, true, INTS(4294967296)), "w"), "4294967296", "uint32");
	refuses(using(typed(U4, "1", 5, true, INTS(256)), "w"), "256", "uint4");
	refuses(using(typed(F8, "1", 5, true, INTS(-1)), "w"), "-1", "float8e4m3fn");
}

static void wrong_field(void **state)
{
	(void)state;
	refuses(using(typed(F32, "1", 5, true, INTS(1)), "w"), "'w'", "int32_data", "float_data");
	refuses(using(typed(U32, "1", 5, true, INTS(1)), "w"), "'w'", "int32_data", "uint64_data");
	refuses(using(typed(I32, "1", 7, true, INTS(1)), "w"), "'w'", "int64_data", "int32_data");
}

static void empty_tensors(void **state)
{
	(void)state;
	check(raw("w", F32, "0,64", "", 0), QN_F32, 0, NULL);
	check(tensor("w", F32, "0,64"), QN_F32, 0, NULL);
	assert_null(content("w")->data);
	check(tensor("w", I4, "0"), QN_I4, 0, NULL);
	refuses(using(raw("w", F32, "0", "\0\0\0", 4), "w"), "'w'", "4 bytes", "need 0");
	pb t = tensor("w", F32, "1"); /* empty raw data beside a typed field: some writers set both */
	pb_bytes(&t, 9, "", 0);
	pb_float(&t, 4, 2);
	check(t, QN_F32, WANT(2));
}

static void dims_and_bytes_disagree(void **state)
{
	(void)state;
	uint8_t zeros[4096] = {0};
	refuses(using(raw("w", F32, "1000000", zeros, 4), "w"), "'w'", "4 bytes", "need 4000000");
	refuses(using(raw("w", F32, "1", zeros, 4096), "w"), "'w'", "4096 bytes", "need 4");
	refuses(using(tensor("w", I8, "128"), "w"), "'w'", "0 entries", "needs 128");
	pb t = raw("w", F32, "1", zeros, 4);
	pb_float(&t, 4, 1);
	refuses(using(t, "w"), "'w'", "both in raw_data and in a typed field");
	refuses(using(raw("w", F32, "1099511627776,2097152", zeros, 4), "w"), "'w'", "overflow");
}

static void bad_dims(void **state)
{
	(void)state;
	refuses(using(tensor("w", F32, "8589934592,8589934592,0"), "w"), "'w'", "overflow");
	refuses(using(raw("w", F32, "4294967296,4294967296", "", 0), "w"), "'w'", "overflow");
	refuses(using(raw("w", F32, "-1,4", "\0\0\0\0", 4), "w"), "'w'", "-1", "axis 0");
	refuses(using(raw("w", F32, "1,1,1,1,1,1,1,1,1", "\0\0\0\0", 4), "w"), "'w'", "rank 9", "8");
	refuses(using(tensor("w", F32, "9223372036854775807"), "w"), "'w'", "overflow");
	pb t = {0};
	pb_int(&t, 2, F32);
	pb_str(&t, 8, "w"); /* no dims: rank 0, so one element is missing */
	refuses(using(t, "w"), "'w'", "0 entries", "needs 1");
}

static void types_that_graphs_cannot_hold(void **state)
{
	(void)state;
	refuses(using(tensor("w", STRING, "1"), "w"), "node 'id'", "tensor 'w'", "string");
	refuses(using(raw("w", F6, "1", "\0", 1), "w"), "tensor 'w'", "float6e2m3");
	refuses(using(raw("w", C64, "1", "\0\0\0\0\0\0\0", 8), "w"), "tensor 'w'", "complex64");
	refuses(using(tensor("w", 0, "1"), "w"), "'w'", "unknown data type 0");
	refuses(using(tensor("w", 99, "1"), "w"), "'w'", "unknown data type 99");
	pb g = graph_xy(); /* not used: no harm */
	pb_add(&g, GRAPH_INIT, tensor("s", STRING, "1"));
	pb_add(&g, GRAPH_NODE, node("Relu", "r", "x", "y"));
	loads(model(g));
	pb t = raw("w", F32, "1", "\0\0\0\0", 4), segment = {0};
	pb_int(&segment, 1, 0);
	pb_add(&t, 3, segment);
	refuses(using(t, "w"), "'w'", "segments");
}

static void large_raw_data_is_a_view(void **state)
{
	(void)state;
	loads(using(ramp("w", "64,64", 4096), "w"));
	const uint8_t *data = content("w")->data;
	bool inside = false;
	for (size_t i = 0; i < 200 && !inside; i++) /* the tensor comes early in the file */
		inside = data == env.bytes + i;
	assert_true(inside);
	assert_true(qn_tensor_get(content("w"), 4095) == 4095);
}

static pb sparse(const char *name, const char *dims, int n, const float *v, const char *index_dims, int n_index, const int64_t *index)
{
	char count[16];
	snprintf(count, sizeof count, "%d", n);
	pb s = {0};
	pb_add(&s, 1, raw(name, F32, count, v, (size_t)n * 4));
	pb_add(&s, 2, raw(NULL, I64, index_dims, index, (size_t)n_index * 8));
	for (const char *p = dims; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		pb_int(&s, 3, strtoll(p, NULL, 10));
	return s;
}

static pb using_sparse(pb s)
{
	pb g = {0};
	pb_add(&g, GRAPH_SPARSE, s);
	pb_add(&g, GRAPH_NODE, node("Identity", "id", "w", "y"));
	pb_add(&g, GRAPH_OUTPUT, value_info("y", F32, NULL));
	return model(g);
}

static void sparse_initializers(void **state)
{
	(void)state;
	const float v[] = {5, 6};
	for (int form = 0; form < 2; form++) {
		loads(using_sparse(form ? sparse("w", "2,3", 2, v, "2,2", INTS(0, 1, 1, 2)) : sparse("w", "2,3", 2, v, "2", INTS(1, 5))));
		const double want[] = {0, 5, 0, 0, 0, 6};
		for (int i = 0; i < 6; i++)
			assert_true(qn_tensor_get(content("w"), i) == want[i]);
		assert_string_equal(value("w")->weight, "w");
	}
	refuses(using_sparse(sparse("w", "2,3", 2, v, "2", INTS(1, 6))), "'w'", "index 1");
	refuses(using_sparse(sparse("w", "2,3", 2, v, "2", INTS(-1, 3))), "'w'", "index 0");
	refuses(using_sparse(sparse("w", "2,3", 2, v, "2", INTS(3, 3))), "'w'", "index 1");
	refuses(using_sparse(sparse("w", "2,3", 2, v, "2,2", INTS(0, 3, 1, 0))), "'w'", "index 0");
	refuses(using_sparse(sparse("w", "2,3", 2, v, "1", INTS(1))), "'w'", "indices");
	refuses(using_sparse(sparse("w", "1", 2, v, "2", INTS(0, 1))), "'w'", "values");
	refuses(using_sparse(sparse("w", "1073741824,4", 2, v, "2", INTS(0, 1))), "'w'", "1 GiB");
	refuses(using_sparse((pb){0}), "values");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_type_raw, teardown),
		cmocka_unit_test_teardown(every_type_typed, teardown),
		cmocka_unit_test_teardown(packed_elements, teardown),
		cmocka_unit_test_teardown(entries_out_of_range, teardown),
		cmocka_unit_test_teardown(wrong_field, teardown),
		cmocka_unit_test_teardown(empty_tensors, teardown),
		cmocka_unit_test_teardown(dims_and_bytes_disagree, teardown),
		cmocka_unit_test_teardown(bad_dims, teardown),
		cmocka_unit_test_teardown(types_that_graphs_cannot_hold, teardown),
		cmocka_unit_test_teardown(large_raw_data_is_a_view, teardown),
		cmocka_unit_test_teardown(sparse_initializers, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
