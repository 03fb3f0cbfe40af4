/* tied.c - finds tables tied to layers and gives both one width. */
#include "passes/tied.h"

#include "passes/config.h"

qn_status qn_same_matrix(qn_graph *g, qn_value *a, qn_value *b, bool *same)
{
	*same = a == b;
	if (*same || !qn_shape_equal(&a->fact.shape, &b->fact.shape) || a->fact.type != b->fact.type)
		return QUERN_OK;
	qn_arena scratch;
	qn_arena_init(&scratch, g->ctx);
	const qn_tensor *x, *y;
	qn_status status = qn_graph_load(g, a, &scratch, &x);
	if (status == QUERN_OK)
		status = qn_graph_load(g, b, &scratch, &y);
	if (status == QUERN_OK)
		*same = qn_tensor_bytes(x) == qn_tensor_bytes(y) && !memcmp(x->data, y->data, qn_tensor_bytes(x));
	qn_arena_release(&scratch);
	return status;
}

static bool pinned(const qn_layer *l) { return l->origin == QN_FROM_PIN || l->origin == QN_FROM_OVERRIDE || l->origin == QN_FROM_LOADED; }

static void tie(qn_graph *g, qn_layer *table, qn_layer *l)
{
	int a = table->weight_bits, b = l->weight_bits;
	bool by_table = pinned(table) == pinned(l) ? a > b : pinned(table);
	int bits = by_table ? a : b;
	if (bits > 4 && bits <= 8) /* gathers and products have no int8 form in common */
		bits = 16;
	if (a == b && a == bits)
		return;
	table->weight_bits = l->weight_bits = bits;
	table->origin = l->origin = by_table ? table->origin : l->origin;
	qn_log(g->ctx, QUERN_LOG_INFO, "'%s' is a table of '%s' and the weight of '%s' (%s): stored once, with %d bits (%d and %d were asked)", l->weight,
		table->name, l->name, qn_role_name(l->role), bits, a, b);
}

qn_status qn_tie_tables(qn_graph *g, qn_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *table = &p->layers[i];
		if (table->role != QN_ROLE_EMBEDDING)
			continue;
		for (size_t k = 0; k < p->n; k++) {
			qn_layer *l = &p->layers[k];
			if (l->role == QN_ROLE_EMBEDDING || l->role == QN_ROLE_NONE || l->n != table->n || l->k != table->k)
				continue;
			bool same;
			QN_TRY(qn_same_matrix(g, table->node->in[table->weight_in], l->node->in[l->weight_in], &same));
			if (!same)
				continue;
			table->tied = l->tied = true;
			tie(g, table, l);
		}
	}
	return QUERN_OK;
}
