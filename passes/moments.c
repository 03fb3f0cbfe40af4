/* moments.c - first and second moments of tensors over samples. */
#include "passes/moments.h"

#include "graph/exec.h"

static qn_status add(void *user, const qn_value *v, const qn_tensor *t)
{
	qn_moments *m = (qn_moments *)user + v->id;
	if (!m->sum || t->type != QN_F32 || t->rank < 1)
		return QUERN_OK;
	int64_t k = t->dim[t->rank - 1], rows = k ? qn_tensor_count(t) / k : 0;
	const float *x = t->data;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < k; i++) {
			m->sum[i] += (double)x[r * k + i];
			m->square[i] += (double)x[r * k + i] * (double)x[r * k + i];
		}
	m->rows += rows;
	return QUERN_OK;
}

static qn_status run(qn_graph *g, qn_exec *e, qn_samples *samples, const char *stage, qn_moments *m)
{
	size_t n = qn_samples_count(samples);
	for (size_t i = 0; i < n; i++) {
		qn_arena a;
		qn_arena_init(&a, g->ctx);
		const qn_tensor **in = QN_NEW(&a, const qn_tensor *, g->n_inputs + 1);
		qn_tensor *out = QN_NEW(&a, qn_tensor, g->n_outputs + 1);
		qn_status status = qn_samples_read(samples, i, &a, in);
		if (status == QUERN_OK) {
			status = qn_exec_all(e, in, &a, out, add, m);
			if (status != QUERN_OK)
				qn_prefix(g->ctx, status, "sample '%s'", qn_samples_name(samples, i));
		}
		qn_arena_release(&a);
		QN_TRY(status);
		if (g->ctx->progress && !g->ctx->progress(g->ctx->progress_user, stage, i + 1, n))
			QN_FAIL(g->ctx, QUERN_ERR_CANCELLED, "stopped");
	}
	return QUERN_OK;
}

qn_status qn_moments_read(qn_graph *g, qn_samples *samples, const char *stage, qn_moments *m)
{
	qn_arena keep; /* the executor goes before the caller changes the graph */
	qn_arena_init(&keep, g->ctx);
	qn_status status = run(g, qn_exec_new(qn_consts_new(g, &keep), &keep), samples, stage, m);
	qn_arena_release(&keep);
	return status;
}
