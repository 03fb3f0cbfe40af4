/* outputs.c - graph outputs of a run against those of the float graph. */
#include "passes/tune/tuner.h"

#include <math.h>

/* Whether axis 0 of an output counts the samples that a batch stacks. */
static bool by_sample(const qn_tuner *t, int output)
{
	const qn_graph *g = t->model->graph;
	const qn_shape *y = &g->outputs[output]->fact.shape, *x = &g->inputs[0]->fact.shape;
	return g->n_inputs && y->rank > 0 && x->rank > 0 && !qn_dim_is_const(y->dim[0]) && qn_dim_equal(y->dim[0], x->dim[0]);
}

/* The multiply-adds of a product, in the unit that it is of. */
static qn_status count_products(void *user, const qn_value *v, const qn_tensor *y)
{
	qn_tuner *t = user;
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->units[i].n; k++) {
			const qn_layer *l = t->units[i].layers[k];
			if (l->node->out[0] == v && l->role != QN_ROLE_EMBEDDING)
				t->units[i].products += (uint64_t)qn_tensor_count(y) * (uint64_t)l->k;
		}
	return QUERN_OK;
}

qn_status qn_outputs_usable(const qn_tuner *t, const qn_tensor *exact)
{
	const qn_graph *g = t->model->graph;
	bool any = false;
	for (int i = 0; i < g->n_outputs; i++) {
		if (!qn_dtype_is_float(exact[i].type))
			continue;
		any = true;
		int64_t n = qn_tensor_count(&exact[i]);
		for (int64_t k = 0; k < n; k++)
			if (isnan(qn_tensor_get(&exact[i], k)))
				QN_FAIL(t->ctx, QUERN_ERR_NUMERIC, "element %lld of output '%s' is NaN in float: no error can be measured there", (long long)k, g->output_names[i]);
	}
	if (!any)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "no output of the model holds floats, so no error can be measured: let it return what its integers are made of");
	return QUERN_OK;
}

qn_status qn_outputs_begin(qn_tuner *t)
{
	qn_graph *g = t->model->graph;
	t->logits = QN_NEW(t->a, bool, g->n_outputs);
	t->exact = QN_NEW(t->a, qn_tensor *, t->streams.n);
	for (int i = 0; i < g->n_outputs; i++) {
		t->logits[i] = qn_plan_is_logits(&t->model->plan, g->outputs[i]);
		t->any_logits |= t->logits[i];
	}
	for (size_t b = 0; b < t->streams.n; b++) {
		t->exact[b] = QN_NEW(t->a, qn_tensor, g->n_outputs);
		qn_status status = qn_exec_all(t->streams.batch[b].exact, t->streams.batch[b].inputs, t->a, t->exact[b], count_products, t);
		if (status != QUERN_OK)
			return qn_streams_blame(&t->streams, status);
		QN_TRY(qn_outputs_usable(t, t->exact[b]));
	}
	return QUERN_OK;
}

/* Slice i of n along axis 0. */
static qn_tensor slice(const qn_tensor *t, int64_t i, int64_t n)
{
	qn_tensor s = *t;
	s.dim[0] /= n;
	s.data = (const char *)t->data + (size_t)i * qn_tensor_bytes(&s);
	return s;
}

/* Whether an output has a vector for each position of a sequence: [batch, positions, size]. */
static bool has_positions(const qn_tuner *t, int output)
{
	const qn_shape *s = &t->model->graph->outputs[output]->fact.shape;
	return !t->logits[output] && s->rank == 3 && !qn_dim_is_const(s->dim[1]);
}

/* The mean over axis 1. */
static qn_tensor *mean_of_positions(const qn_tensor *t, qn_arena *a)
{
	int64_t dim[] = {t->dim[0], t->dim[2]}, n = t->dim[1], size = t->dim[2];
	qn_tensor *m = qn_tensor_new(a, QN_F32, 2, dim);
	float *to = (float *)(uintptr_t)m->data;
	const float *v = qn_tensor_f32(a, t);
	for (int64_t b = 0; b < dim[0]; b++)
		for (int64_t i = 0; i < size; i++) {
			double sum = 0;
			for (int64_t k = 0; k < n; k++)
				sum += (double)v[(b * n + k) * size + i];
			to[b * size + i] = (float)(sum / (double)(n ? n : 1));
		}
	return m;
}

static double cosine_of(const qn_tensor *x, const qn_tensor *y, qn_arena *a)
{
	qn_damage d = {0};
	return qn_damage_add(&d, a, x, y) < 0 ? d.cosines : 0; /* what is no number is as wrong as can be */
}

static void add_output(qn_tuner *t, int output, const qn_tensor *exact, const qn_tensor *got, qn_output_sums *s)
{
	qn_arena scratch;
	qn_arena_init(&scratch, t->ctx);
	int64_t n = by_sample(t, output) && exact->dim[0] > 0 ? exact->dim[0] : 1;
	for (int64_t i = 0; i < n; i++) {
		qn_damage d = {0};
		qn_tensor x = n > 1 ? slice(exact, i, n) : *exact, y = n > 1 ? slice(got, i, n) : *got;
		double whole = cosine_of(&x, &y, &scratch);
		if (t->logits[output])
			qn_damage_add_kl(&d, &scratch, &x, &y);
		/* readers of the positions see their errors as they are, readers of one vector for the whole only what does not average out */
		double pooled = has_positions(t, output) ? cosine_of(mean_of_positions(&x, &scratch), mean_of_positions(&y, &scratch), &scratch) : whole;
		s->cosines += (whole + pooled) / 2;
		s->samples++;
		s->kl += d.kl;
		s->rows += d.rows;
	}
	qn_arena_release(&scratch);
}

void qn_outputs_add(qn_tuner *t, const qn_tensor *exact, const qn_tensor *const *outputs, qn_output_sums *s)
{
	for (int i = 0; i < t->model->graph->n_outputs; i++)
		if (qn_dtype_is_float(exact[i].type) && qn_tensor_count(&exact[i]))
			add_output(t, i, &exact[i], outputs[i], s);
}

qn_output_error qn_outputs_error(const qn_output_sums *s)
{
	double cosine = s->samples ? 1 - s->cosines / (double)s->samples : 0, kl = s->rows ? s->kl / (double)s->rows : 0;
	return (qn_output_error){cosine > 0 ? cosine : 0, kl > 0 ? kl : 0};
}
