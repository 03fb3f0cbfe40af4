/* result.c - the curve and the counts of a tuning, and the public calls that hand them out. */
#include "passes/tune/result.h"

#include <math.h>

static qn_curve_point point_of(const qn_tuner *t, uint64_t bytes, double error)
{
	return (qn_curve_point){.bytes = qn_total_bytes(t, bytes), .bits = qn_bits_a_weight(t, bytes), .error = error > 0 ? error : 0, .measured = NAN};
}

void qn_result_curve(const qn_tuner *t, const qn_solution *s, quern_tuning *r)
{
	qn_tuning *u = &r->tuning;
	*u = (qn_tuning){.measure = t->kl ? "kl" : "cosine", .samples = t->streams.samples, .n = s->n_hull};
	u->points = QN_NEW(&r->arena, qn_curve_point, s->n_hull);
	for (size_t i = 0; i < s->n_hull; i++) {
		const qn_hull_point *h = &s->hull[i];
		u->points[i] = point_of(t, h->bytes, h->error);
		if (h->group == SIZE_MAX)
			continue;
		u->points[i].changed = qn_arena_strdup(&r->arena, t->units[h->group].layers[0]->name);
		u->points[i].weight_bits = t->units[h->group].candidates[h->choice].bits;
	}
}

void qn_result_choice(const qn_tuner *t, const qn_solution *s, double measured, quern_tuning *r)
{
	const qn_frontier_point *at = &s->frontier.points[s->at];
	r->tuning.chosen = point_of(t, at->bytes, qn_solution_error(s));
	r->act_error = qn_solution_act_error(s);
	r->tuning.chosen.measured = measured;
	r->gap = s->gap;
	for (size_t i = 0; i < t->n; i++) {
		const qn_unit *u = &t->units[i];
		int bits = u->candidates[u->chosen].bits;
		r->products += u->products;
		if (qn_unit_tunes_act(t, u)) {
			r->act_layers[u->act_bits > 8] += u->n;
			r->narrow_products += u->act_bits > 8 ? 0 : u->products;
		}
		if (u->n_candidates < 2)
			r->fixed += u->n;
		else
			r->layers[bits <= 4 ? 0 : bits <= 8 ? 1 : 2] += u->n;
	}
}

void quern_tuning_free(quern_tuning *r)
{
	if (!r)
		return;
	qn_arena_release(&r->arena);
	qn_heap(r->ctx, r, sizeof *r, 0);
}

static quern_tuning_point given(const qn_curve_point *p)
{
	return (quern_tuning_point){p->bytes, p->bits, p->error, p->measured, p->changed, p->weight_bits};
}

void quern_tuning_get(const quern_tuning *r, quern_tuning_summary *out)
{
	*out = (quern_tuning_summary){r->tuning.measure, r->tuning.samples, given(&r->tuning.chosen), r->gap, {r->layers[0], r->layers[1], r->layers[2]}, r->fixed,
		{r->act_layers[0], r->act_layers[1]}, r->act_error, r->products ? (double)r->narrow_products / (double)r->products : 0};
}

size_t quern_tuning_points(const quern_tuning *r) { return r->tuning.n; }
void quern_tuning_at(const quern_tuning *r, size_t i, quern_tuning_point *out) { *out = given(&r->tuning.points[i]); }
const char *quern_tuning_json(const quern_tuning *r) { return r->json; }
