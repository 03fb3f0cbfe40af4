/* _zip.h - rows of two (or more) inputs that meet element by element after broadcasting. */
#ifndef QN_OPS_ZIP_H
#define QN_OPS_ZIP_H

#include "graph/emit.h"
#include "graph/ops/_span.h"

/* Shapes of up to three operands against one output, with neighbouring axes joined where all operands allow it. A row is the last
 * joined axis; an operand's stride along it is 1 or 0. */
#define QN_ZIP_OPERANDS 3
typedef struct qn_zip_plan {
	int rank, n;
	int64_t dim[QN_MAX_RANK], stride[QN_ZIP_OPERANDS][QN_MAX_RANK];
	int64_t count, inner, rows;
	int64_t inner_stride[QN_ZIP_OPERANDS];
} qn_zip_plan;
void qn_zip_plan_make(qn_zip_plan *p, const qn_tensor *const *operands, int n, int rank, const int64_t *out_dim);
/* Offsets, in elements, of each operand at the start of a row. */
void qn_zip_plan_seek(const qn_zip_plan *p, int64_t row, int64_t *offset);

/* n results from elements of a and b (in their compute type) with strides 0 or 1. `u`: the type is unsigned. y may be a. */
typedef void (*qn_zip_kernel)(const void *a, int64_t sa, const void *b, int64_t sb, void *y, int64_t n, bool u);

typedef struct qn_zip {
	qn_zip_kernel kernel[QN_AS_COUNT]; /* NULL: not for that compute type */
	bool to_bool;                      /* results are bytes 0 or 1 */
	bool (*dim)(qn_call *c, qn_dim a, qn_dim b, qn_dim *y);  /* false: not determined */
	qn_tristate (*test)(qn_dims *t, qn_dim a, qn_dim b);     /* for to_bool */
	/* The same where b is no integer; NULL: not determined. */
	bool (*fraction)(qn_call *c, qn_dim a, double b, qn_dim *y);
	bool commutes;                     /* fraction(a, b) is fraction(b, a) */
} qn_zip;

/* a / b as what the node's consumers make of it: the quotient where it is exact; else its floor or ceiling where all of them round
 * it that way (Floor, Ceil, or Cast to an integer of what is not negative). False otherwise. */
bool qn_zip_quotient(qn_call *c, qn_dim a, qn_dim b, qn_dim *y);

/* y = f(a, b); a and b have one type. */
qn_status qn_zip_tensors(qn_call *c, const qn_zip *f, const qn_tensor *a, const qn_tensor *b, const qn_tensor *y);
/* Output 0 = f(input 0, input 1), QN_DIM included. */
qn_status qn_zip_eval(qn_call *c, const qn_zip *f);
/* The same from left to right over any number of inputs. */
qn_status qn_zip_eval_all(qn_call *c, const qn_zip *f);
/* Broadcast of all inputs; output 0 is bool. */
qn_status qn_zip_infer_bool(qn_call *c);
/* qn_infer_broadcast, after all input types were found equal. */
qn_status qn_zip_infer(qn_call *c);

/* "nnef(a, b)" at one rank; and chained over all inputs. */
qn_status qn_zip_emit(qn_emit *e, const char *nnef);
/* Operand i at the output's rank. */
const char *qn_zip_operand(qn_emit *e, int i);
/* nnef(a, b) for a comparison `eq`, `lt` ...: constants compare directly, two integer activations through their difference. */
qn_status qn_zip_emit_compare(qn_emit *e, const char *nnef);

/* A kernel from an expression in a, b and u. */
#define QN_ZIP_KERNEL(fn, in_type, out_type, expr)                                                                     \
	QN_VECTOR static void fn(const void *pa, int64_t sa, const void *pb, int64_t sb, void *py, int64_t n, bool u)  \
	{                                                                                                              \
		const in_type *va = pa, *vb = pb;                                                                      \
		out_type *y = py;                                                                                      \
		(void)u;                                                                                               \
		if (sa == 1 && sb == 1) {                                                                              \
			QN_SIMD for (int64_t i = 0; i < n; i++)                                                        \
			{                                                                                              \
				const in_type a = va[i], b = vb[i];                                                    \
				y[i] = (out_type)(expr);                                                               \
			}                                                                                              \
		} else if (sa == 1) {                                                                                  \
			const in_type b = vb[0];                                                                       \
			QN_SIMD for (int64_t i = 0; i < n; i++)                                                        \
			{                                                                                              \
				const in_type a = va[i];                                                               \
				y[i] = (out_type)(expr);                                                               \
			}                                                                                              \
		} else if (sb == 1) {                                                                                  \
			const in_type a = va[0];                                                                       \
			QN_SIMD for (int64_t i = 0; i < n; i++)                                                        \
			{                                                                                              \
				const in_type b = vb[i];                                                               \
				y[i] = (out_type)(expr);                                                               \
			}                                                                                              \
		} else {                                                                                               \
			const in_type a = va[0], b = vb[0];                                                            \
			const out_type same = (out_type)(expr);                                                        \
			for (int64_t i = 0; i < n; i++)                                                                \
				y[i] = same;                                                                           \
		}                                                                                                      \
	}

/* Kernels zip_f32, zip_f64, zip_i64: one expression for floats, one for integers. */
#define QN_ZIP_KERNELS(float_expr, int_expr)                                                                           \
	QN_ZIP_KERNEL(zip_f32, float, float, float_expr)                                                               \
	QN_ZIP_KERNEL(zip_f64, double, double, float_expr)                                                             \
	QN_ZIP_KERNEL(zip_i64, int64_t, int64_t, int_expr)
#define QN_ZIP_TESTS(float_expr, int_expr)                                                                             \
	QN_ZIP_KERNEL(zip_f32, float, uint8_t, float_expr)                                                             \
	QN_ZIP_KERNEL(zip_f64, double, uint8_t, float_expr)                                                            \
	QN_ZIP_KERNEL(zip_i64, int64_t, uint8_t, int_expr)
#define QN_ZIP_ALL {zip_f32, zip_f64, zip_i64}

/* Arithmetic that wraps, as integers of two's complement do */
static inline int64_t qn_wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t qn_wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t qn_wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline bool qn_int_less(int64_t a, int64_t b, bool u) { return u ? (uint64_t)a < (uint64_t)b : a < b; }

#endif
