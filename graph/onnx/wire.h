/* wire.h - protocol buffer bytes become protobuf-c messages, while the raw data of tensors stays where it is.
 *
 * A walk over the encoded message, led by the descriptors, checks every length, drops what the loader never reads and writes
 * a reduced copy in which each TensorProto.raw_data, however small, is replaced by its index in a table of views; protobuf-c unpacks
 * the copy. Since all raw data is replaced, no content of a file can be taken for an index. */
#ifndef QN_ONNX_WIRE_H
#define QN_ONNX_WIRE_H

#include "graph/onnx/mapfile.h"
#include "schema/onnx.pb-c.h"

enum { QN_MAX_GRAPH_LEVELS = 64 }; /* subgraphs inside subgraphs */

typedef struct qn_lifted {
	qn_bytes *views;
	size_t n, cap;
} qn_lifted;

/* Unpacks `b`, a message of type `desc`, into `tmp`; views are added to `lifted` and point into `b`. QUERN_ERR_FORMAT, with the place
 * in bytes, when the encoding is damaged, nests too deeply or holds text that is not UTF-8. */
qn_status qn_wire_unpack(qn_ctx *ctx, qn_arena *tmp, const ProtobufCMessageDescriptor *desc, qn_bytes b, qn_lifted *lifted, void *out);

/* The bytes that stood in raw_data of a tensor with has_raw_data set. */
qn_bytes qn_lifted_raw(const qn_lifted *lifted, const Qn__TensorProto *t);

#endif
