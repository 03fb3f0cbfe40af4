/* solve.c - measured errors become a knapsack: the error of an allocation is the sum of what its units do alone. */
#include "passes/tune/tuner.h"

enum { MOST_POINTS = 1 << 14 };

void qn_solve(qn_tuner *t, qn_solution *s)
{
	qn_choices *groups = QN_NEW(t->a, qn_choices, t->n);
	for (size_t i = 0; i < t->n; i++) {
		const qn_unit *u = &t->units[i];
		qn_choice *c = QN_NEW(t->a, qn_choice, u->n_candidates);
		for (int k = 0; k < u->n_candidates; k++)
			c[k] = (qn_choice){u->candidates[k].bytes, qn_error_of(t, &u->candidates[k].error)};
		groups[i] = (qn_choices){c, u->n_candidates};
	}
	*s = (qn_solution){.first = QN_NEW(t->a, int, t->n)};
	qn_frontier_make(t->a, groups, t->n, MOST_POINTS, &s->frontier);
	s->n_hull = qn_hull_make(t->a, groups, t->n, s->first, &s->hull);
}

/* An int8 weight takes one integer product for each multiply-add with activations of 8 bits, and two, for their limbs, with those of 16. */
static void solve_acts(qn_tuner *t, qn_solution *s)
{
	qn_choices *groups = QN_NEW(t->a, qn_choices, t->n);
	int *choice = QN_NEW(t->a, int, t->n);
	for (size_t i = 0; i < t->n; i++) {
		const qn_unit *u = &t->units[i];
		qn_choice *c = QN_NEW(t->a, qn_choice, 2);
		bool open = qn_unit_tunes_act(t, u);
		if (open) {
			c[0] = (qn_choice){u->products, qn_error_of(t, &u->act.error)};
			c[1] = (qn_choice){2 * u->products, 0};
		}
		groups[i] = (qn_choices){c, open ? 2 : 1};
	}
	qn_frontier_make(t->a, groups, t->n, MOST_POINTS, &s->acts);
	s->acts_at = qn_frontier_within_error(&s->acts, s->act_limit); /* the last has no error */
	qn_frontier_choices(&s->acts, s->acts_at, choice);
	for (size_t i = 0; i < t->n; i++)
		t->units[i].act_bits = groups[i].n == 2 && choice[i] == 0 ? t->units[i].act.bits : 16;
}

double qn_solution_act_error(const qn_solution *s) { return s->acts.n ? s->acts.points[s->acts_at].error : 0; }
double qn_solution_error(const qn_solution *s) { return s->frontier.points[s->at].error + qn_solution_act_error(s); }

void qn_solution_choose(qn_tuner *t, qn_solution *s, size_t point, double act_limit)
{
	int *choice = QN_NEW(t->a, int, t->n);
	qn_frontier_choices(&s->frontier, point, choice);
	for (size_t i = 0; i < t->n; i++)
		t->units[i].chosen = choice[i];
	const qn_frontier_point *p = &s->frontier.points[point];
	s->at = point;
	s->act_limit = act_limit > 0 ? act_limit : 0;
	if (t->options->activations)
		solve_acts(t, s);
	s->gap = s->frontier.exact ? 0 : p->error - qn_hull_bound(s->hull, s->n_hull, p->bytes);
}

uint64_t qn_total_bytes(const qn_tuner *t, uint64_t of_units)
{
	int64_t sum = t->other_bytes + (int64_t)of_units;
	return sum > 0 ? (uint64_t)sum : 0;
}

double qn_bits_a_weight(const qn_tuner *t, uint64_t of_units)
{
	return 8 * (double)(of_units - t->uncounted_bytes) / (double)t->counted_weights;
}

bool qn_budget(const qn_tuner *t, uint64_t *of_units)
{
	const quern_tune_options *o = t->options;
	const uint64_t no_limit = INT64_MAX / 2;
	int64_t left = (int64_t)(o->max_bytes < no_limit ? o->max_bytes : no_limit) - t->other_bytes;
	if (o->max_bytes > 0)
		*of_units = left > 0 ? (uint64_t)left : 0;
	else if (o->max_bits > 0)
		*of_units = t->uncounted_bytes + (uint64_t)(o->max_bits * (double)t->counted_weights / 8);
	else
		return false;
	return true;
}
