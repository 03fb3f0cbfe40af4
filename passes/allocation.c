/* allocation.c - a loaded allocation meets the plan of a model. */
#include "passes/allocation.h"
#include "graph/names.h"

/* The first differences as text, and how many there are. */
typedef struct differences {
	qn_text text;
	size_t n;
} differences;

static bool differ(differences *d)
{
	enum { SHOWN = 8 };
	if (d->n++ >= SHOWN)
		return false;
	qn_text_add(&d->text, "%s", d->n > 1 ? "; " : "");
	return true;
}

static bool same_shape(const qn_allocated *e, const qn_layer *l)
{
	return e->rank < 0 || (e->rank == l->rank && !memcmp(e->shape, l->shape, (size_t)l->rank * sizeof *l->shape));
}

static bool same_rows(const qn_allocated_part *e, const qn_part *p)
{
	int64_t at = 0;
	if (e->role != p->role)
		return false;
	for (size_t i = 0; i < e->n_runs; i++)
		for (int64_t row = e->runs[i].from; row < e->runs[i].to; row++)
			if (at >= p->n || p->rows[at++] != row)
				return false;
	return at == p->n;
}

/* Parts may be left out: all then get the layer's width. */
static bool same_parts(const qn_allocated *e, const qn_layer *l)
{
	bool same = !e->n_parts || e->n_parts == l->n_parts;
	for (int i = 0; same && i < e->n_parts; i++)
		same = same_rows(&e->parts[i], &l->parts[i]);
	return same;
}

/* What is not as in the model; NULL: all is. */
static const char *compare(qn_arena *a, const qn_allocated *e, const qn_layer *l)
{
	if (e->weight && strcmp(e->weight, l->weight))
		return qn_arena_printf(a, "layer '%.100s' has the weight '%.100s', '%.100s' in the model", e->name, e->weight, l->weight);
	if (!same_shape(e, l))
		return qn_arena_printf(a, "layer '%.100s' has another shape in the model", e->name);
	if (e->role && e->role != l->role)
		return qn_arena_printf(a, "layer '%.100s' has the role %s, %s in the model", e->name, qn_role_name(e->role),
			l->role ? qn_role_name(l->role) : "none");
	if (e->has_block && e->block != l->block)
		return qn_arena_printf(a, "layer '%.100s' is in block %d, %d in the model", e->name, e->block, l->block);
	if (!same_parts(e, l))
		return qn_arena_printf(a, "the parts of layer '%.100s' are others in the model", e->name);
	return NULL;
}

/* An entry of a fused layer gives one width for all of it or one for each part, and then the widest is the layer's. */
static qn_status check_parts(qn_ctx *ctx, const qn_allocation *f, const qn_allocated *e)
{
	int widest = 0;
	for (int i = 0; i < e->n_parts; i++)
		widest = e->parts[i].weight_bits > widest ? e->parts[i].weight_bits : widest;
	if (e->n_parts && widest != e->weight_bits)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s', layer '%.320s': weightBits is %d, but its widest part has %d; give the width of each part, or leave out "
			"'parts'", f->path, e->name, e->weight_bits, widest);
	return QUERN_OK;
}

static void take_entry(const qn_allocated *e, qn_layer *l)
{
	l->weight_bits = e->weight_bits;
	l->act_bits = e->act_bits;
	for (int i = 0; i < l->n_parts; i++)
		l->parts[i].weight_bits = e->n_parts ? e->parts[i].weight_bits : e->weight_bits;
	l->act_scale = e->act_scale;
	l->act_zero_point = e->act_zero_point;
	l->act_low = e->act_low;
	l->act_high = e->act_high;
	l->balance = e->balance.v;
	l->equalized = e->equalized.v;
	l->error = e->error;
	if (e->weight_scale_min > 0)
		l->weight_scale_min = e->weight_scale_min;
	l->origin = QN_FROM_LOADED;
}

static qn_names *entries_by_name(const qn_allocation *f, qn_arena *a, differences *d)
{
	qn_names *names = qn_names_new(a);
	for (size_t i = 0; i < f->n; i++) {
		if (qn_names_get(names, f->layers[i].name) && differ(d))
			qn_text_add(&d->text, "layer '%.100s' is there twice", f->layers[i].name);
		qn_names_put(names, f->layers[i].name, &f->layers[i]);
	}
	return names;
}

static qn_allocated_factors *balance_of(qn_allocated *e) { return &e->balance; }
static qn_allocated_factors *equalized_of(qn_allocated *e) { return &e->equalized; }

static const struct {
	const char *key;
	qn_allocated_factors *(*of)(qn_allocated *e);
} factors[] = {{"balance", balance_of}, {"equalized", equalized_of}};

/* Factors by reference become the very vector of the layer that they name. */
static qn_status resolve_factors(qn_ctx *ctx, const qn_allocation *f, const qn_names *names)
{
	for (size_t i = 0; i < f->n * QN_LEN(factors); i++) {
		qn_allocated *e = &f->layers[i / QN_LEN(factors)];
		qn_allocated_factors *own = factors[i % QN_LEN(factors)].of(e);
		qn_allocated *other = own->of ? qn_names_get(names, own->of) : NULL;
		if (own->of && (!other || !factors[i % QN_LEN(factors)].of(other)->v))
			QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s', layer '%.320s': '%s' names '%.320s', which is no layer above with a list of its own", f->path, e->name,
				factors[i % QN_LEN(factors)].key, own->of);
		if (other)
			*own = *factors[i % QN_LEN(factors)].of(other);
	}
	return QUERN_OK;
}

static qn_status check_factors(qn_ctx *ctx, const qn_allocation *f, qn_allocated *e, int64_t k)
{
	for (size_t i = 0; i < QN_LEN(factors); i++) {
		const qn_allocated_factors *own = factors[i].of(e);
		if (own->v && own->n != k)
			QN_FAIL(ctx, QUERN_ERR_CONFIG, "'%s', layer '%.320s': '%s' has %lld channels, the activation %lld", f->path, e->name, factors[i].key,
				(long long)own->n, (long long)k);
	}
	return QUERN_OK;
}

/* A layer without a role is only in the file where it has a width of its own. */
static void find_differences(qn_plan *p, const qn_allocation *f, const qn_names *names, qn_arena *a, differences *d)
{
	qn_names *known = qn_names_new(a);
	for (size_t i = 0; i < p->n; i++) {
		qn_layer *l = &p->layers[i];
		const qn_allocated *e = qn_names_get(names, l->name);
		qn_names_put(known, l->name, l);
		const char *other = e ? compare(a, e, l) : NULL;
		if (other && differ(d))
			qn_text_add(&d->text, "%s", other);
		if (!e && l->role && differ(d))
			qn_text_add(&d->text, "layer '%.100s' of the model is not in the file", l->name);
	}
	for (size_t i = 0; i < f->n; i++)
		if (!qn_names_get(known, f->layers[i].name) && differ(d))
			qn_text_add(&d->text, "layer '%.100s' of the file is not in the model", f->layers[i].name);
}

static qn_status apply(qn_ctx *ctx, qn_plan *p, const qn_allocation *f, qn_arena *a)
{
	differences d = {.text = {.arena = a}};
	qn_text_add(&d.text, "%s", "");
	const qn_names *names = entries_by_name(f, a, &d);
	find_differences(p, f, names, a, &d);
	if (strcmp(f->fingerprint, p->fingerprint))
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the allocation '%s' is of another model: it was saved for '%.100s', fingerprint %.40s; this is '%.100s', fingerprint "
			"%s; %zu differences between their layers%s%s%s", f->path, f->file, f->fingerprint, p->file, p->fingerprint, d.n, d.n ? ": " : "",
			d.text.s, d.n ? "" : " (the weights or other parts of the graph differ)");
	if (d.n)
		QN_FAIL(ctx, QUERN_ERR_CONFIG, "the allocation '%s' does not fit the model: %zu differences: %s", f->path, d.n, d.text.s);
	QN_TRY(resolve_factors(ctx, f, names));
	for (size_t i = 0; i < p->n; i++) {
		qn_allocated *e = qn_names_get(names, p->layers[i].name);
		if (!e)
			continue;
		QN_TRY(check_parts(ctx, f, e));
		QN_TRY(check_factors(ctx, f, e, p->layers[i].k));
		take_entry(e, &p->layers[i]);
	}
	p->outputs = f->outputs;
	p->n_outputs = f->n_outputs;
	p->tuning = f->tuning;
	return QUERN_OK;
}

qn_status qn_allocation_apply(qn_ctx *ctx, qn_plan *p, const qn_allocation *f)
{
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	qn_status status = apply(ctx, p, f, &scratch);
	qn_arena_release(&scratch);
	return status;
}

bool qn_scale_is_of_width(float scale, int zero_point, float low, float high, int bits)
{
	double largest = -low > high ? -low : high;
	double codes = zero_point ? (double)((int64_t)1 << bits) - 1 : (double)((int64_t)1 << (bits - 1)) - 1;
	double wanted = (zero_point ? (double)high - (double)low : largest) / (codes > 0 ? codes : 1);
	return wanted > 0.7 * (double)scale && wanted < 1.4 * (double)scale;
}

static bool scale_fits(const qn_allocated *e, const qn_layer *l)
{
	if (l->act_bits != e->act_bits)
		return false;
	if (l->act_bits > QN_MOST_ACT_BITS)
		return true;
	if (e->scale_bits)
		return l->act_bits == e->scale_bits;
	return !e->has_range || qn_scale_is_of_width(l->act_scale, l->act_zero_point, l->act_low, l->act_high, l->act_bits);
}

static void settle(qn_ctx *ctx, const qn_allocation *f, const qn_allocated *e, qn_layer *l)
{
	if (e->form >= 0 && e->form != (int)l->form && l->weight_bits == e->weight_bits)
		qn_log(ctx, QUERN_LOG_INFO, "'%s', layer '%s': %d bits are stored as %s, not as the %s of the file", f->path, l->name, l->weight_bits,
			qn_form_name(l->form), qn_form_name((qn_form)e->form));
	if (l->weight_bits != e->weight_bits || l->act_bits != e->act_bits || (e->form >= 0 && e->form != (int)l->form))
		l->error = NULL; /* it was measured at other widths */
	if (!(l->act_scale > 0) || scale_fits(e, l))
		return;
	l->act_scale = l->act_low = l->act_high = 0;
	l->act_zero_point = 0;
}

void qn_allocation_settle(qn_ctx *ctx, qn_plan *p, const qn_allocation *f)
{
	qn_arena scratch;
	qn_arena_init(&scratch, ctx);
	qn_names *names = qn_names_new(&scratch);
	for (size_t i = 0; i < f->n; i++)
		qn_names_put(names, f->layers[i].name, &f->layers[i]);
	for (size_t i = 0; i < p->n; i++) {
		const qn_allocated *e = qn_names_get(names, p->layers[i].name);
		if (e)
			settle(ctx, f, e, &p->layers[i]);
	}
	qn_arena_release(&scratch);
}
