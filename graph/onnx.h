/* onnx.h - the ONNX loader: a file becomes a graph. graph/onnx/ holds the only files that see protobuf-c. */
#ifndef QN_ONNX_H
#define QN_ONNX_H

#include "graph/graph.h"

/* Loads `path` (and its external data) into a new graph in `a`. Large raw data stays a view of the mapped files, which `a` keeps.
 * Nodes come out sorted, model-local functions inlined, Constant nodes as constants, initializers that are also
 * graph inputs as constants only; operators whose row is missing are all listed in one message (QUERN_ERR_UNSUPPORTED).
 * Declared input shapes become the facts of the inputs; every other declared shape is ignored.
 * Errors name the file, the tensor or node, and the place. */
qn_status qn_onnx_load(qn_ctx *ctx, const char *path, qn_arena *a, qn_graph **out);
/* The same from bytes that outlive `a`; external data is looked for in `folder` (NULL: refused). `path` is for messages. */
qn_status qn_onnx_load_bytes(qn_ctx *ctx, const char *path, const void *data, size_t n, const char *folder, qn_arena *a, qn_graph **out);

/* One serialized TensorProto (test_data_set input_0.pb), copied into `a`; *name may be "". */
qn_status qn_onnx_tensor_file(qn_ctx *ctx, const char *path, qn_arena *a, qn_tensor **out, const char **name);

#endif
