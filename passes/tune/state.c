/* state.c - a text file: a line that says of what, then a line for each measured error. A line that an interruption cut is dropped. */
#include "passes/nnef/folder.h"
#include "passes/quant/qscheme.h"
#include "passes/tune/tuner.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char HEAD[] = "quern-tuning-state 1 ";

struct qn_state {
	FILE *file;
	const char *path;
};

static void close_file(void *file) { fclose(file); }

/* "8" of a weight, "a8" of an activation. */
static const char *width_text(qn_arena *a, const qn_unit *u, const qn_candidate *c) { return qn_arena_printf(a, "%s%d", c == &u->act ? "a" : "", c->bits); }

/* The candidate that a line is of. */
static qn_candidate *find(qn_tuner *t, uint64_t unit, const char *width)
{
	qn_unit *u = unit < t->n ? &t->units[unit] : NULL;
	for (int c = 0; u && c < u->n_candidates; c++)
		if (!strcmp(width_text(t->a, u, &u->candidates[c]), width))
			return &u->candidates[c];
	return u && u->act_open && !strcmp(width_text(t->a, u, &u->act), width) ? &u->act : NULL;
}

/* Why a number cannot be a measured error; NULL where it can. */
static const char *wrong_error(double v, double most) { return isnan(v) ? "no number" : v < 0 ? "negative" : v > most ? "too large" : NULL; }

/* UNIT WIDTH COSINE KL, the errors as the bits of their doubles: exact in every locale. *why: what is wrong with the line; NULL: it was taken. */
static void take_line(qn_tuner *t, const char *line, const char **why)
{
	uint64_t unit, cosine, kl;
	char width[8];
	int end = 0;
	qn_output_error e;
	*why = "it is not UNIT WIDTH COSINE KL";
	if (sscanf(line, "%" SCNu64 " %7s %16" SCNx64 " %16" SCNx64 "%n", &unit, width, &cosine, &kl, &end) != 4 || line[end] != '\n')
		return;
	memcpy(&e.cosine, &cosine, sizeof cosine);
	memcpy(&e.kl, &kl, sizeof kl);
	qn_candidate *k = find(t, unit, width);
	const char *wrong = wrong_error(e.cosine, 2), *wrong_kl = wrong_error(e.kl, DBL_MAX);
	if (!k)
		*why = qn_arena_printf(t->a, "UNIT %llu has no WIDTH %s", (unsigned long long)unit, width);
	else if (k->known)
		*why = qn_arena_printf(t->a, "UNIT %llu at WIDTH %s is there already", (unsigned long long)unit, width);
	else if (wrong || wrong_kl)
		*why = qn_arena_printf(t->a, "%s is %s", wrong ? "COSINE" : "KL", wrong ? wrong : wrong_kl);
	else
		*why = NULL, k->known = true, k->error = e;
}

/* Lines of this tuning; *text is all that is to stay in the file. */
static qn_status take_lines(qn_tuner *t, FILE *f, const char *path, qn_text *text, size_t *taken)
{
	char line[512];
	const char *why;
	while (fgets(line, sizeof line, f)) {
		if (!strchr(line, '\n') && feof(f)) /* cut by an interruption */
			break;
		take_line(t, line, &why);
		if (why)
			QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "the tuning state '%s', line %zu: %s; remove the file to measure anew", path, *taken + 2, why);
		qn_text_add(text, "%s", line);
		++*taken;
	}
	return QUERN_OK;
}

/* What the file holds of this tuning is taken. */
static qn_status take_file(qn_tuner *t, const char *path, const char *key, qn_text *text)
{
	char line[512];
	FILE *f = fopen(path, "r");
	if (!f)
		return errno == ENOENT ? QUERN_OK : qn_fail(t->ctx, QUERN_ERR_IO, "cannot read the tuning state '%s': %s", path, strerror(errno));
	size_t taken = 0;
	bool any = fgets(line, sizeof line, f), ours = any && !strncmp(line, HEAD, sizeof HEAD - 1);
	bool same = ours && !strncmp(line + sizeof HEAD - 1, key, strlen(key)) && line[sizeof HEAD - 1 + strlen(key)] == '\n';
	qn_status status = same ? take_lines(t, f, path, text, &taken) : QUERN_OK;
	fclose(f);
	QN_TRY(status);
	if (!any) /* as good as none */
		return QUERN_OK;
	if (!ours)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "'%s' is no tuning state; it would be replaced: move it away, or name another file for the state", path);
	if (!same && t->options->state)
		QN_FAIL(t->ctx, QUERN_ERR_CONFIG, "'%s' has what was measured of another model, on other samples or with other options, and it would be lost: name another file for "
			"the state, or remove this one", path);
	if (!same)
		qn_log(t->ctx, QUERN_LOG_WARN, "'%s' is of another model, other samples or other options: all is measured anew", path);
	else if (taken)
		qn_log(t->ctx, QUERN_LOG_INFO, "'%s': %zu measured errors taken over", path, taken);
	return QUERN_OK;
}

qn_status qn_state_open(qn_tuner *t, const char *path, const char *key)
{
	qn_text text = {.arena = t->a};
	QN_TRY(qn_source_spare(t->ctx, path));
	qn_text_add(&text, "%s%s\n", HEAD, key);
	QN_TRY(take_file(t, path, key, &text));
	QN_TRY(qn_file_replace(t->ctx, t->a, path, text.s, text.len));
	t->state = QN_NEW(t->a, struct qn_state, 1);
	t->state->path = path;
	t->state->file = fopen(path, "a");
	if (!t->state->file)
		QN_FAIL(t->ctx, QUERN_ERR_IO, "cannot write the tuning state '%s': %s", path, strerror(errno));
	qn_arena_defer(t->a, close_file, t->state->file);
	return QUERN_OK;
}

qn_status qn_state_add(qn_tuner *t, size_t unit, const qn_candidate *c)
{
	uint64_t cosine, kl;
	memcpy(&cosine, &c->error.cosine, sizeof cosine);
	memcpy(&kl, &c->error.kl, sizeof kl);
	int n = fprintf(t->state->file, "%zu %s %016" PRIx64 " %016" PRIx64 "\n", unit, width_text(t->a, &t->units[unit], c), cosine, kl);
	if (n < 0 || fflush(t->state->file))
		QN_FAIL(t->ctx, QUERN_ERR_IO, "cannot write the tuning state '%s': %s", t->state->path, strerror(errno));
	return QUERN_OK;
}

void qn_state_remove(qn_tuner *t) { qn_path_remove(t->state->path); }
