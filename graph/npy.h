/* npy.h - NumPy's array files, and the members of .npz files.
 *
 * Read: format versions 1 to 3, either byte order, C and Fortran order; bool, signed and unsigned integers of 8 to 64 bits, f16, f32, f64.
 * Complex, text, dates, records and pickled objects are refused by name. Written: version 1, little-endian, C order. */
#ifndef QN_NPY_H
#define QN_NPY_H

#include "graph/tensor.h"

/* Arranges `n` bytes of a .npy file as a tensor. Its data is a view of `file` (maybe unaligned), or a copy in `a` where bytes or axes must
 * be reordered. `name` is for messages. Bytes past the array are ignored, as NumPy does. QUERN_ERR_FORMAT, QUERN_ERR_UNSUPPORTED. */
qn_status qn_npy_decode(qn_ctx *ctx, qn_arena *a, const char *name, const void *file, size_t n, qn_tensor *out);
/* The same for a file, which stays mapped until the arena goes. */
qn_status qn_npy_load(qn_ctx *ctx, qn_arena *a, const char *path, qn_tensor *out);

/* The header to write before the data of a tensor of a numeric type (bf16, block types and QN_DIM have none); returns its length. */
enum { QN_NPY_HEADER = 512 };
qn_status qn_npy_header(qn_ctx *ctx, const char *name, const qn_tensor *t, uint8_t header[QN_NPY_HEADER], size_t *n);
/* Header and data as one piece in `a`. */
qn_status qn_npy_encode(qn_ctx *ctx, qn_arena *a, const char *name, const qn_tensor *t, const void **file, size_t *n);

#endif
