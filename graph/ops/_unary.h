/* _unary.h - rows of one input whose output element is a function of one input element.
 *
 * A kernel reads `x` (one element) and the parameters `p`; see QN_UNARY_FLOAT. */
#ifndef QN_OPS_UNARY_H
#define QN_OPS_UNARY_H

#include "graph/emit.h"
#include "graph/ops/_engine.h"
#include "graph/ops/_span.h"

typedef void (*qn_map_f32)(const float *in, float *out, int64_t n, const float *p);
typedef void (*qn_map_f64)(const double *in, double *out, int64_t n, const double *p);
typedef void (*qn_map_i64)(const int64_t *in, int64_t *out, int64_t n, bool is_unsigned, const double *p);
typedef bool (*qn_map_dim)(qn_dims *t, qn_dim x, qn_dim *out); /* false: not determined */

#define QN_UNARY_PARAMS 4

typedef struct qn_unary {
	qn_map_f32 f32; /* f16 and bf16 too */
	qn_map_f64 f64;
	qn_map_i64 i64; /* all integers; NULL where ONNX has floats only */
	qn_map_dim dim; /* NULL: undecided */
} qn_unary;

/* Output 0 = f(input 0). p: QN_UNARY_PARAMS parameters, or NULL. Fails for a type without kernel. */
qn_status qn_unary_eval(qn_call *c, const qn_unary *f, const double *p);
/* y = f(x) for tensors of one type and count; y's data may be x's. */
qn_status qn_unary_map(qn_call *c, const qn_tensor *x, const qn_tensor *y, const qn_unary *f, const double *p);
/* Output 0 (bool) = test(element of input 0 as f64, p). */
qn_status qn_unary_test(qn_call *c, bool (*test)(double v, const double *p), const double *p);
/* Types of output 0: bool, shape of input 0. */
qn_status qn_unary_test_infer(qn_call *c);
/* "nnef(x)". With NULL, the value is passed on by copy(x). */
qn_status qn_unary_emit(qn_emit *e, const char *nnef);

/* Kernel `name` for vectors from an expression in x and p[0..3]. */
#define QN_UNARY_F32(name, clones, expr32)                                                                             \
	clones static void name(const float *in, float *out, int64_t n, const float *p)                                \
	{                                                                                                              \
		(void)p;                                                                                               \
		QN_SIMD for (int64_t i = 0; i < n; i++)                                                                \
		{                                                                                                      \
			const float x = in[i];                                                                         \
			out[i] = expr32;                                                                               \
		}                                                                                                      \
	}

/* Kernels `map_f32` and `map_f64` from two such expressions. */
#define QN_UNARY_FLOAT(expr32, expr64)                                                                                 \
	QN_UNARY_F32(map_f32, QN_VECTOR, expr32)                                                                       \
	static void map_f64(const double *in, double *out, int64_t n, const double *p)                                 \
	{                                                                                                              \
		(void)p;                                                                                               \
		for (int64_t i = 0; i < n; i++) {                                                                      \
			const double x = in[i];                                                                        \
			out[i] = expr64;                                                                               \
		}                                                                                                      \
	}

/* Kernel `map_i64`; u is true for unsigned types. */
#define QN_UNARY_INT(expr)                                                                                             \
	static void map_i64(const int64_t *in, int64_t *out, int64_t n, bool u, const double *p)                       \
	{                                                                                                              \
		(void)u;                                                                                               \
		(void)p;                                                                                               \
		for (int64_t i = 0; i < n; i++) {                                                                      \
			const int64_t x = in[i];                                                                       \
			out[i] = expr;                                                                                 \
		}                                                                                                      \
	}

/* Kernel `engine_f32`: the same as the engine computes it. */
#define QN_UNARY_ENGINE(expr32)                                                                                        \
	QN_UNARY_F32(engine_f32, QN_FUSED, expr32)                                                                     \
	static const qn_unary as_engine = {.f32 = engine_f32, .f64 = map_f64};

/* A whole row without attributes: float kernels, and "nnef(x)". */
#define QN_UNARY_ROW(id, onnx, nnef, expr32, expr64, ...)                                                              \
	QN_UNARY_FLOAT(expr32, expr64)                                                                                 \
	static qn_status eval(qn_call *c)                                                                              \
	{                                                                                                              \
		return qn_unary_eval(c, &(qn_unary){.f32 = map_f32, .f64 = map_f64}, NULL);                            \
	}                                                                                                              \
	static qn_status emit(qn_emit *e) { return qn_unary_emit(e, nnef); }                                           \
	const qn_op qn_op_##id = {.name = onnx, .min_in = 1, .max_in = 1, .traits = QN_ELEMENTWISE,                    \
		.infer = qn_infer_same, .eval = eval, .emit = emit, ##__VA_ARGS__}

/* The same with what the engine makes of it, for evaluations that are compared with its own. */
#define QN_UNARY_ROW_ENGINE(id, onnx, nnef, expr32, expr64, engine32)                                                  \
	QN_UNARY_FLOAT(expr32, expr64)                                                                                 \
	QN_UNARY_ENGINE(engine32)                                                                                      \
	static qn_status eval(qn_call *c)                                                                              \
	{                                                                                                              \
		return qn_unary_eval(c, c->ctx->engine_math ? &as_engine : &(qn_unary){.f32 = map_f32, .f64 = map_f64}, NULL); \
	}                                                                                                              \
	static qn_status emit(qn_emit *e) { return qn_unary_emit(e, nnef); }                                           \
	const qn_op qn_op_##id = {.name = onnx, .min_in = 1, .max_in = 1, .traits = QN_ELEMENTWISE,                    \
		.infer = qn_infer_same, .eval = eval, .emit = emit}

#endif
