/* _span.h - what element-wise rows share: three compute types, and loops over blocks of elements.
 *
 * f32, f16 and bf16 are computed as f32, f64 as f64, integers and bool as i64 (u64 as its bits). Results go back by rounding
 * to nearest for floats and by dropping high bits for integers. */
#ifndef QN_OPS_SPAN_H
#define QN_OPS_SPAN_H

#include "graph/op.h"
#include "graph/ops/_math.h"

typedef enum { QN_AS_F32, QN_AS_F64, QN_AS_I64, QN_AS_COUNT } qn_compute;
typedef union qn_cell { float f; double d; int64_t i; } qn_cell;

qn_compute qn_compute_of(qn_dtype t); /* numeric types only */
static inline bool qn_dtype_is_unsigned(qn_dtype t) { return t >= QN_U8 && t <= QN_BOOL; }
static inline bool qn_dtype_is_numeric(qn_dtype t) { return t >= QN_F32 && t <= QN_BOOL; }
static inline size_t qn_compute_size(qn_compute as) { return as == QN_AS_F32 ? sizeof(float) : sizeof(double); }
/* True when elements of the type are in their compute type already. */
static inline bool qn_is_native(qn_dtype t) { return t == QN_F32 || t == QN_F64 || t == QN_I64 || t == QN_U64; }

/* Elements from..from+n of `data` in the compute type of `t`, into `to`; and back. */
void qn_span_load(const void *data, qn_dtype t, int64_t from, int64_t n, void *to);
void qn_span_store(const void *from_buffer, void *data, qn_dtype t, int64_t at, int64_t n);
/* The same into doubles, whatever the type. */
void qn_span_load_f64(const void *data, qn_dtype t, int64_t from, int64_t n, double *to);
void qn_span_store_f64(const double *from_buffer, void *data, qn_dtype t, int64_t at, int64_t n);

/* Threads for `work` elements: 1 where that is not worth a region. */
int qn_span_threads(const qn_call *c, int64_t work);

/* Element i of a tensor as a dim: QN_DIM, integers and integral floats; false for others. */
bool qn_tensor_dim(const qn_tensor *t, int64_t i, qn_dim *out);

#define QN_SPAN 512         /* elements in a buffer */
#define QN_SPAN_TASK 16384  /* elements that one task of a parallel loop takes */

#endif
