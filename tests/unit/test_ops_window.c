/* test_ops_window.c - convolutions, pools and resampling against naive references on random geometry, and what their rules refuse. */
#include "op_fixture.h"

#include <math.h>

enum { ROUNDS = 80, AXES = 3 };

typedef struct geometry {
	int n;
	int64_t in[AXES], kernel[AXES], stride[AXES], dilation[AXES], pads[2 * AXES];
} geometry;

static geometry any_geometry(void)
{
	geometry g = {.n = (int)draw(1, AXES)};
	for (int i = 0; i < g.n; i++) {
		g.kernel[i] = draw(1, 3), g.stride[i] = draw(1, 3), g.dilation[i] = draw(1, 2);
		g.in[i] = draw(5, 8);
		g.pads[i] = draw(0, g.kernel[i] - 1), g.pads[g.n + i] = draw(0, g.kernel[i] - 1);
	}
	return g;
}

static qn_node *window_node(const char *op, int n_in, int n_out, const geometry *g)
{
	qn_node *n = op_node(op, n_in, n_out);
	n->opset = 18;
	qn_node_set_ints(graph, n, "kernel_shape", g->kernel, (size_t)g->n);
	qn_node_set_ints(graph, n, "strides", g->stride, (size_t)g->n);
	qn_node_set_ints(graph, n, "dilations", g->dilation, (size_t)g->n);
	qn_node_set_ints(graph, n, "pads", g->pads, (size_t)g->n * 2);
	return n;
}

static qn_tensor *small(qn_dtype type, int n, int64_t d0, int64_t d1, const int64_t *rest)
{
	int64_t dim[QN_MAX_RANK] = {d0, d1};
	memcpy(dim + 2, rest, sizeof *rest * (size_t)n);
	qn_tensor *t = qn_tensor_new(&arena, type, n + 2, dim);
	for (int64_t i = 0; i < qn_tensor_count(t); i++)
		qn_tensor_set(op_data(t), type, i, qn_dtype_is_float(type) ? (double)draw(-8, 8) / 4 : (double)draw(0, 200));
	return t;
}

static void expect(const char *what, const qn_tensor *y, int64_t i, double want, double tolerance)
{
	double got = qn_tensor_get(y, i);
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%s: element %lld is %g, expected %g (random state %llu)", what, (long long)i, got, want, (unsigned long long)seed);
}

static void expect_failure(const qn_node *n, const qn_fact *in, const char *text)
{
	qn_fact out[3] = {{QN_NONE, {0, {{0}}}, NULL}};
	assert_int_not_equal(op_infer(n, in, out), QUERN_OK);
	if (!strstr(ctx.message, text) || !strstr(ctx.message, "the_node"))
		fail_msg("'%s' does not name the node and '%s'", ctx.message, text);
}

/* Where kernel offset k of the window at output `o` reads; false in the padding. */
static bool reads(const geometry *g, const int64_t *o, const int64_t *k, int64_t *at)
{
	bool inside = true;
	for (int d = 0; d < g->n; d++) {
		at[d] = o[d] * g->stride[d] + k[d] * g->dilation[d] - g->pads[d];
		inside = inside && at[d] >= 0 && at[d] < g->in[d];
	}
	return inside;
}

/* --- Conv ----------------------------------------------------------------------------------------------------------- */
static double conv_at(const geometry *g, const qn_tensor *x, const qn_tensor *w, const int64_t *y, int64_t groups)
{
	int64_t k[AXES] = {0}, c_in = w->dim[1], group = y[1] / (w->dim[0] / groups);
	double sum = 0;
	do {
		int64_t ix[QN_MAX_RANK] = {y[0]}, iw[QN_MAX_RANK] = {y[1]};
		if (!reads(g, y + 2, k, ix + 2))
			continue;
		memcpy(iw + 2, k, sizeof *k * (size_t)g->n);
		for (int64_t c = 0; c < c_in; c++) {
			ix[1] = group * c_in + c, iw[1] = c;
			sum += qn_tensor_get(x, op_offset(x, ix)) * qn_tensor_get(w, op_offset(w, iw));
		}
	} while (op_next(g->n, g->kernel, k));
	return sum;
}

static void test_conv(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_F32, QN_F64, QN_F32, QN_F16};
	for (int i = 0; i < ROUNDS; i++) {
		geometry g = any_geometry();
		qn_dtype type = types[i % 4];
		int64_t groups = draw(1, 3), c_in = draw(1, 3), c_out = draw(1, 3) * groups, index[QN_MAX_RANK] = {0};
		qn_node *n = window_node("Conv", 3, 1, &g);
		qn_node_set_int(graph, n, "group", groups);
		qn_tensor *x = small(type, g.n, 2, c_in * groups, g.in), *w = small(type, g.n, c_out, c_in, g.kernel);
		qn_tensor *bias = draw(0, 1) ? op_random(type, 1, &c_out) : NULL, *y = op_run(n, x, w, bias);
		for (int64_t e = 0; e < qn_tensor_count(y); e++) {
			double want = conv_at(&g, x, w, index, groups) + (bias ? qn_tensor_get(bias, index[1]) : 0);
			expect("Conv", y, e, want, type == QN_F16 ? 0.1 : 0);
			op_next(y->rank, y->dim, index);
		}
	}
}

/* Many columns: several chunks, ends of lines inside a chunk, threads. */
static void test_conv_large(void **state)
{
	(void)state;
	geometry g = {.n = 2, .in = {61, 83}, .kernel = {3, 5}, .stride = {1, 2}, .dilation = {1, 1}, .pads = {1, 2, 1, 2}};
	int64_t index[QN_MAX_RANK] = {0};
	qn_tensor *x = small(QN_F32, 2, 1, 64, g.in), *w = small(QN_F32, 2, 3, 64, g.kernel);
	ctx.threads = 3;
	qn_tensor *y = op_run(window_node("Conv", 2, 1, &g), x, w, NULL);
	ctx.threads = 1;
	qn_tensor *again = op_run(window_node("Conv", 2, 1, &g), x, w, NULL);
	assert_memory_equal(y->data, again->data, qn_tensor_bytes(y));
	for (int64_t e = 0; e < qn_tensor_count(y); e++) {
		if (e % 37 == 0)
			expect("Conv", y, e, conv_at(&g, x, w, index, 1), 0);
		op_next(y->rank, y->dim, index);
	}
	ctx.threads = 0;
}

static void test_conv_integer(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS / 4; i++) {
		geometry g = any_geometry();
		memset(g.pads, 0, sizeof g.pads);
		int64_t index[QN_MAX_RANK] = {0}, c_in = draw(1, 40);
		qn_tensor *x = small(QN_U8, g.n, 1, c_in, g.in), *w = small(QN_U8, g.n, 2, c_in, g.kernel), *zero = op_random(QN_U8, 0, NULL);
		qn_tensor *y = op_run(window_node("ConvInteger", 3, 1, &g), x, w, zero), *shifted = qn_tensor_new(&arena, QN_I32, x->rank, x->dim);
		for (int64_t e = 0; e < qn_tensor_count(x); e++)
			qn_tensor_set(op_data(shifted), QN_I32, e, qn_tensor_get(x, e) - qn_tensor_get(zero, 0));
		assert_int_equal(y->type, QN_I32);
		for (int64_t e = 0; e < qn_tensor_count(y); e++) {
			expect("ConvInteger", y, e, conv_at(&g, shifted, w, index, 1), 0);
			op_next(y->rank, y->dim, index);
		}
	}
}

/* The transpose of Conv as a linear map: <conv(y), x> == <y, transposed(x)> for every pair. */
static void test_conv_transpose(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		geometry g = any_geometry();
		int64_t groups = draw(1, 2), c_in = draw(1, 2), c_out = draw(1, 2) * groups, extra[AXES], y_index[QN_MAX_RANK] = {0};
		qn_tensor *image = small(QN_F32, g.n, 1, c_in * groups, g.in), *w = small(QN_F32, g.n, c_out, c_in, g.kernel);
		qn_node *forward = window_node("Conv", 2, 1, &g), *back = window_node("ConvTranspose", 2, 1, &g);
		qn_node_set_int(graph, forward, "group", groups);
		qn_node_set_int(graph, back, "group", groups);
		qn_tensor *columns = op_run(forward, image, w, NULL), *x = small(QN_F32, g.n, 1, c_out, columns->dim + 2);
		for (int d = 0; d < g.n; d++) {
			int64_t span = (g.kernel[d] - 1) * g.dilation[d] + 1, reach = (columns->dim[d + 2] - 1) * g.stride[d] + span;
			extra[d] = g.in[d] + g.pads[d] + g.pads[g.n + d] - reach;
		}
		qn_node_set_ints(graph, back, "output_padding", extra, (size_t)g.n);
		qn_tensor *y = op_run(back, x, w, NULL);
		op_check_dims(y, image->rank, image->dim);
		double left = 0, right = 0;
		for (int64_t e = 0; e < qn_tensor_count(x); e++) {
			left += qn_tensor_get(x, e) * conv_at(&g, image, w, y_index, groups);
			op_next(x->rank, x->dim, y_index);
		}
		for (int64_t e = 0; e < qn_tensor_count(y); e++)
			right += qn_tensor_get(y, e) * qn_tensor_get(image, e);
		assert_float_equal(left, right, 1e-3);
	}
}

/* --- pools ------------------------------------------------------------------------------------------------------------ */
static void pool_once(const char *op, bool ceil_mode, bool count_pads)
{
	geometry g = any_geometry();
	qn_node *n = window_node(op, 1, 1, &g);
	int64_t index[QN_MAX_RANK] = {0};
	bool max = !strcmp(op, "MaxPool"), lp = !strcmp(op, "LpPool");
	qn_node_set_int(graph, n, "ceil_mode", ceil_mode);
	qn_node_set_int(graph, n, "count_include_pad", count_pads);
	qn_tensor *x = small(draw(0, 1) ? QN_F32 : QN_F64, g.n, 2, 2, g.in), *y = op_run(n, x, NULL, NULL);
	for (int d = 0; d < g.n; d++) {
		int64_t room = g.in[d] + g.pads[d] + g.pads[g.n + d] - (g.kernel[d] - 1) * g.dilation[d] - 1;
		int64_t out = (ceil_mode ? (room + g.stride[d] - 1) / g.stride[d] : room / g.stride[d]) + 1;
		if (ceil_mode && (out - 1) * g.stride[d] >= g.in[d] + g.pads[d])
			out--;
		assert_int_equal(y->dim[d + 2], out);
	}
	for (int64_t e = 0; e < qn_tensor_count(y); e++) {
		int64_t k[AXES] = {0}, at[QN_MAX_RANK] = {index[0], index[1]};
		double sum = 0, top = -INFINITY, count = 0;
		do {
			bool inside = reads(&g, index + 2, k, at + 2), in_pads = true;
			for (int d = 0; d < g.n; d++)
				in_pads = in_pads && at[d + 2] < g.in[d] + g.pads[g.n + d];
			double v = inside ? qn_tensor_get(x, op_offset(x, at)) : 0;
			count += count_pads ? in_pads : inside;
			sum += lp ? v * v : v;
			top = inside && v > top ? v : top;
		} while (op_next(g.n, g.kernel, k));
		expect(op, y, e, max ? top : lp ? sqrt(sum) : sum / (count > 0 ? count : 1), 1e-6);
		op_next(y->rank, y->dim, index);
	}
}

static void test_pools(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		pool_once("MaxPool", i % 2, false);
		pool_once("AveragePool", i % 2, i % 4 < 2);
		pool_once("LpPool", i % 2, false);
	}
}

static void test_window_rules(void **state)
{
	(void)state;
	qn_node *conv = op_node("Conv", 2, 1), *pool = op_node("MaxPool", 1, 1);
	qn_fact out, in[2] = {op_fact(QN_F32, "B,4,S,T"), op_fact(QN_F32, "8,4,3,3")};
	assert_int_equal(op_infer(conv, in, &out), QUERN_OK);
	qn_shape want = op_shape("B,8,S-2,T-2");
	assert_true(qn_shape_equal(&out.shape, &want));
	qn_node_set_string(graph, conv, "auto_pad", "SAME_LOWER");
	assert_int_equal(op_infer(conv, in, &out), QUERN_OK);
	want = op_shape("B,8,S,T");
	assert_true(qn_shape_equal(&out.shape, &want));
	qn_node_set_string(graph, conv, "auto_pad", "sideways");
	expect_failure(conv, in, "sideways");
	qn_node_set_string(graph, conv, "auto_pad", "NOTSET");
	in[1] = op_fact(QN_F32, "");
	expect_failure(conv, in, "rank 0");
	in[1] = op_fact(QN_F32, "8,3,3,3");
	expect_failure(conv, in, "channels");
	in[1] = op_fact(QN_F32, "8,4,3,3");
	in[0] = op_fact(QN_F32, "1,4,2,9");
	expect_failure(conv, in, "spans 3");
	qn_node_set_ints(graph, conv, "strides", (const int64_t[]){1, 0}, 2);
	expect_failure(conv, in, "strides");
	in[0] = op_fact(QN_F32, "1,4,9,9");
	expect_failure(pool, in, "kernel_shape");
	qn_node_set_ints(graph, pool, "kernel_shape", (const int64_t[]){2}, 1);
	expect_failure(pool, in, "kernel_shape");
}

/* --- resampling ------------------------------------------------------------------------------------------------------- */
/* Half-pixel linear resampling of one axis by its definition, edges repeated. */
static double linear_at(const qn_tensor *x, int64_t o, double scale)
{
	double at = ((double)o + 0.5) / scale - 0.5, last = (double)x->dim[1] - 1;
	double low = floor(at), part = at - low, high = low + 1;
	low = low < 0 ? 0 : low, high = high > last ? last : high;
	return (1 - part) * qn_tensor_get(x, (int64_t)low) + part * qn_tensor_get(x, (int64_t)high);
}

static void test_resize(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		int64_t in = draw(2, 9), out = draw(in, 20);
		qn_tensor *x = op_random(QN_F32, 2, (const int64_t[]){1, in}), *sizes = op_ints(2, (const int64_t[]){1, out});
		qn_node *n = op_node("Resize", 4, 1);
		n->opset = 18;
		bool nearest = i % 2;
		qn_node_set_string(graph, n, "mode", nearest ? "nearest" : "linear");
		const qn_tensor *inputs[4] = {x, NULL, NULL, sizes};
		qn_tensor y[1];
		bool undecided;
		assert_int_equal(qn_exec_node(&ctx, graph->dims, n, inputs, &arena, y, &undecided), QUERN_OK);
		op_check_dims(y, 2, (const int64_t[]){1, out});
		for (int64_t o = 0; o < out; o++) {
			double scale = (double)out / (double)in, at = ceil(((double)o + 0.5) / scale - 1);
			at = at < 0 ? 0 : at > (double)(in - 1) ? (double)(in - 1) : at;
			expect("Resize", y, o, nearest ? qn_tensor_get(x, (int64_t)at) : linear_at(x, o, scale), 1e-4);
		}
	}
	qn_node *n = op_node("Upsample", 2, 1);
	n->opset = 9;
	float scales[2] = {1, 2};
	qn_tensor s = {QN_F32, 1, {2}, scales};
	qn_fact out, in[2] = {op_fact(QN_F32, "B,S"), {QN_F32, qn_shape_of(&s), &s}};
	assert_int_equal(op_infer(n, in, &out), QUERN_OK);
	qn_shape want = op_shape("B,2*S");
	assert_true(qn_shape_equal(&out.shape, &want));
	scales[1] = -1;
	expect_failure(n, in, "-1");
	qn_node_set_string(graph, n, "mode", "sinc");
	expect_failure(n, in, "sinc");
}

/* --- quantization ------------------------------------------------------------------------------------------------------- */
static void test_quantize(void **state)
{
	(void)state;
	static const qn_dtype types[] = {QN_U8, QN_I8, QN_U16, QN_I16};
	static const double low[] = {0, -128, 0, -32768}, high[] = {255, 127, 65535, 32767};
	for (int i = 0; i < ROUNDS; i++) {
		int64_t dim[3] = {draw(1, 3), draw(1, 8), draw(1, 3)}, block = draw(1, 4), count = (dim[1] + block - 1) / block;
		qn_dtype type = types[i % 4];
		int kind = i / 4 % 3; /* one for all, one for each index of axis 1, one for each block of it */
		int64_t many[3] = {dim[0], count, dim[2]};
		qn_tensor *x = qn_tensor_new(&arena, QN_F32, 3, dim);
		qn_tensor *scale = qn_tensor_new(&arena, QN_F32, kind == 2 ? 3 : kind, kind == 2 ? many : dim + 1);
		qn_tensor *zero = op_random(type, scale->rank, scale->dim);
		for (int64_t e = 0; e < qn_tensor_count(x); e++)
			((float *)op_data(x))[e] = (float)draw(-40000, 40000) / 64;
		for (int64_t e = 0; e < qn_tensor_count(scale); e++)
			((float *)op_data(scale))[e] = ldexpf(1, (int)draw(-6, 3));
		qn_node *q = op_node("QuantizeLinear", 3, 1), *d = op_node("DequantizeLinear", 3, 1);
		for (int k = 0; kind == 2 && k < 2; k++)
			qn_node_set_int(graph, k ? q : d, "block_size", block);
		qn_tensor *y = op_run(q, x, scale, zero), *back = op_run(d, y, scale, zero);
		assert_int_equal(y->type, type);
		for (int64_t e = 0; e < qn_tensor_count(x); e++) {
			int64_t row = e / dim[2] % dim[1], in_blocks = (e / dim[2] / dim[1] * count + row / block) * dim[2] + e % dim[2];
			int64_t at = kind == 0 ? 0 : kind == 1 ? row : in_blocks;
			double s = qn_tensor_get(scale, at), z = qn_tensor_get(zero, at), want = nearbyint(qn_tensor_get(x, e) / s) + z;
			want = want < low[i % 4] ? low[i % 4] : want > high[i % 4] ? high[i % 4] : want;
			expect("QuantizeLinear", y, e, want, 0);
			expect("DequantizeLinear", back, e, (want - z) * s, 0);
		}
	}
	qn_node *n = op_node("DequantizeLinear", 2, 1);
	qn_fact in[2] = {op_fact(QN_I8, "2,3"), op_fact(QN_F32, "4")};
	expect_failure(n, in, "4 and 3");
	qn_node_set_int(graph, n, "axis", 2);
	expect_failure(n, in, "axis 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_conv, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_conv_large, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_conv_integer, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_conv_transpose, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_pools, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_window_rules, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_resize, op_setup, op_teardown),
		cmocka_unit_test_setup_teardown(test_quantize, op_setup, op_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
