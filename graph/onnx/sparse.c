/* sparse.c - a SparseTensorProto becomes a dense tensor. */
#include "graph/onnx/loader.h"

static const size_t MAX_DENSE_BYTES = (size_t)1 << 30; /* a few bytes of file can ask for any size */

/* The place of element i in the flattened tensor; false when it is outside. */
static bool flat_index(const qn_tensor *dense, const qn_tensor *indices, int64_t i, int64_t count, int64_t *out)
{
	if (indices->rank == 1) {
		*out = qn_tensor_get_i64(indices, i);
		return *out >= 0 && *out < count;
	}
	int64_t flat = 0;
	for (int k = 0; k < dense->rank; k++) {
		int64_t at = qn_tensor_get_i64(indices, i * dense->rank + k);
		if (at < 0 || at >= dense->dim[k])
			return false;
		flat = flat * dense->dim[k] + at;
	}
	*out = flat;
	return true;
}

static qn_status check_parts(
	qn_loader *ld, const char *subject, const qn_tensor *values, const qn_tensor *indices, const qn_tensor *dense, int64_t count)
{
	if (values->rank != 1 || values->dim[0] > count)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "sparse %s: its values must be a list of at most %lld", subject, (long long)count);
	bool flat = indices->rank == 1, pairs = indices->rank == 2 && indices->dim[1] == dense->rank;
	if (indices->type != QN_I64 || !(flat || pairs) || indices->dim[0] != values->dim[0])
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "sparse %s: its indices must be int64 of shape [%lld] or [%lld, %d]", subject,
			(long long)values->dim[0], (long long)values->dim[0], dense->rank);
	size_t bytes;
	if (!qn_dtype_bytes(values->type, count, &bytes) || bytes > MAX_DENSE_BYTES)
		QN_FAIL(ld->ctx, QUERN_ERR_UNSUPPORTED, "sparse %s takes more than 1 GiB when dense; store it dense", subject);
	return QUERN_OK;
}

qn_status qn_sparse_tensor(qn_loader *ld, const char *subject, const Qn__SparseTensorProto *s, const qn_tensor **out)
{
	if (!s->values || !s->indices)
		QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "sparse %s has no %s", subject, s->values ? "indices" : "values");
	const qn_tensor *values, *indices;
	QN_TRY(qn_payload_tensor(ld, subject, s->values, &values));
	QN_TRY(qn_payload_tensor(ld, qn_arena_printf(ld->tmp, "index list of sparse %s", subject), s->indices, &indices));
	qn_tensor dense = {0};
	int64_t count, last = -1;
	QN_TRY(qn_payload_dims(ld, subject, s->dims, s->n_dims, &dense, &count));
	QN_TRY(check_parts(ld, subject, values, indices, &dense, count));
	qn_tensor *y = qn_tensor_new(ld->a, values->type, dense.rank, dense.dim);
	size_t size = qn_dtype_size(values->type);
	for (int64_t i = 0; i < values->dim[0]; i++) {
		int64_t at;
		if (!flat_index(&dense, indices, i, count, &at) || at <= last)
			QN_FAIL(ld->ctx, QUERN_ERR_FORMAT, "sparse %s: index %lld is outside the shape, repeated or not in ascending order",
				subject, (long long)i);
		memcpy((uint8_t *)(uintptr_t)y->data + (size_t)at * size, (const uint8_t *)values->data + (size_t)i * size, size);
		last = at;
	}
	*out = y;
	return QUERN_OK;
}
