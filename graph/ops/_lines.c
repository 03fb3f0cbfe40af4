#include "graph/ops/_lines.h"

qn_lines qn_lines_of(const qn_tensor *t, int first, int last)
{
	qn_lines l = {1, 1, 1};
	for (int a = 0; a < t->rank; a++)
		*(a < first ? &l.outer : a <= last ? &l.n : &l.inner) *= t->dim[a];
	return l;
}

qn_status qn_lines_run(qn_call *c, const qn_tensor *x, const qn_tensor *y, qn_lines l, qn_line_f64 reals, qn_line_i64 ints,
	const void *user)
{
	if (!qn_dtype_is_numeric(x->type))
		QN_OP_FAIL(c, QUERN_ERR_UNSUPPORTED, "no evaluation for elements of type %s", qn_dtype_name(x->type));
	int threads = qn_span_threads(c, l.outer * l.n * l.inner);
	bool whole = ints && !qn_dtype_is_float(x->type);
	double *buffers = QN_NEW(c->scratch, double, (int64_t)threads * l.n + 1);
	void *out = (void *)(uintptr_t)y->data;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
	for (int t = 0; t < threads; t++) {
		double *line = buffers + t * l.n;
		int64_t from = l.outer * l.inner * t / threads, to = l.outer * l.inner * (t + 1) / threads;
		for (int64_t k = from; k < to; k++) {
			int64_t base = k / l.inner * l.n * l.inner + k % l.inner, step = l.inner == 1 ? l.n : 1;
			for (int64_t i = 0; i < l.n; i += step) {
				if (whole)
					qn_span_load(x->data, x->type, base + i * l.inner, step, line + i);
				else
					qn_span_load_f64(x->data, x->type, base + i * l.inner, step, line + i);
			}
			if (whole)
				ints((int64_t *)(void *)line, l.n, user);
			else
				reals(line, l.n, user);
			for (int64_t i = 0; i < l.n; i += step) {
				if (whole)
					qn_span_store(line + i, out, y->type, base + i * l.inner, step);
				else
					qn_span_store_f64(line + i, out, y->type, base + i * l.inner, step);
			}
		}
	}
	return QUERN_OK;
}
