/* report.h - what a compile or an evaluation did and what it cost, for people (HTML) and programs (JSON). docs/report.md says what each figure means.
 *
 * model -> measure.c, weights.c -> collect.c fills a qn_report -> report_json.c writes it -> html*.c draw it. The page holds the JSON, so both say the same. */
#ifndef QN_REPORT_H
#define QN_REPORT_H

#include "passes/eval.h"
#include "passes/report/measure.h"

/* Where a figure is not known it is NAN; a ratio without noise is INFINITY. */
typedef struct qn_report_layer {
	const char *name, *weight, *op;
	const char *role;   /* "" where there is none; `why` says why */
	const char *why;
	const char *form;   /* "q4_0"; of a weight that was split, its parts' forms with '+' between */
	const char *origin; /* of the width */
	const char *reason, *act_reason; /* why it has another form than asked, float activations; NULL */
	int block;          /* -1: outside the blocks */
	bool cross;
	int ordinal;        /* among the layers of its block and role, from 1; 0: it is the only one */
	int rank;
	int64_t shape[QN_MAX_RANK];
	int weight_bits, act_bits; /* act_bits over QN_MOST_ACT_BITS: float */
	uint64_t before, after;    /* bytes; both 0 where `shared` */
	bool shared;               /* the same weight as a layer above, which counts it */
	const char *rounding;      /* "gptq" or "importance" where samples rounded the weight; NULL */
	const char *rounding_note; /* why they did not though they were to, or what they could not do; NULL */
	double scale_min, scale_max; /* of the weight's stored scales, magnitudes other than 0 */
	double weight_sqnr;          /* dB */
	double act_scale, act_low, act_high;
	int act_zero_point;
	double cosine, sqnr, largest; /* of the result, with all that its inputs bring */
	double own_sqnr;              /* of the result on exact inputs */
	double share;                 /* of the damage, 0..1 */
	bool has_input, balanced;
	qn_spread input, before_balance; /* magnitudes of what the layer reads, by channel; the second only where balanced */
	double seen_low, seen_high;      /* of what the layer reads, balanced where it is */
} qn_report_layer;

typedef struct qn_report_output {
	const char *name;
	double cosine, sqnr, largest, kl; /* kl NAN: no logits */
} qn_report_output;

/* Layers of one role and form. */
typedef struct qn_report_group {
	const char *role, *form; /* role "other": constants that are no layer's weight, form "" */
	size_t layers;
	uint64_t before, after;
} qn_report_group;

typedef struct qn_report_advice {
	const char *title, *text;
	const char *flags; /* to add to the command, quoted for a shell; NULL */
} qn_report_advice;

typedef struct qn_report {
	qn_arena *arena;
	const char *command;        /* "compile", "eval", "tune" */
	const char *model, *archive; /* file names without their folders; archive NULL: none was written */
	const char *target, *rounding, *mode, *samples_name;
	const char *config;         /* all of it, as JSON */
	double percentile;
	int method, embedding_bits;
	bool dynamic, strict, act_quantized;
	uint64_t weights_before, weights_after, archive_bytes;
	double bits_per_weight;     /* of the layers that have a role */
	qn_report_layer *layers;    /* in graph order */
	size_t n_layers;
	qn_report_group *groups;
	size_t n_groups, cap_groups;
	qn_report_output *outputs;
	size_t n_outputs;
	bool executed;              /* the compiled graph ran on samples */
	size_t samples, samples_given, attributed;
	double alone, together;     /* output error: the sum over layers alone, and all together; relative squared error a sample */
	const char *no_share;       /* why shares are not known; NULL where they are */
	const qn_equalization *equalizations;
	size_t n_equalizations;
	bool equalize;
	const struct qn_tuning *tuning; /* NULL: the widths were not tuned */
	qn_report_advice *advice;
	size_t n_advice, cap_advice;
} qn_report;

/* --- session.c: the report's way through a compile or an evaluation ---------------------------------------------------- */
/* Whether a report of that name can be written, known before the work: a writable folder, and in its place nothing or a former report, none of the files
 * that were read. NULL: none is asked for. */
qn_status qn_report_can_write(qn_ctx *ctx, qn_arena *a, const char *path);
/* After the model is quantized and before it is emitted: loads the float model again and runs both where the configuration has samples. *out is NULL where
 * no report is asked for. `command`: "compile", or "tune" where nothing will be emitted. */
qn_status qn_report_of_compile(quern_model *m, const char *command, qn_arena *a, qn_report **out);
/* The same from an evaluation whose run was hooked to `measured`. */
qn_status qn_report_of_evaluation(quern_evaluation *e, qn_measure *measured, const char *samples, qn_arena *a, qn_report **out);
/* Writes the file beside its place (gone with `a` unless renamed), then gives it its name. `r` may be NULL. */
qn_status qn_report_save(const quern_model *m, qn_arena *a, qn_report *r, const char *archive, uint64_t archive_bytes, const char **written);
qn_status qn_report_saved(const quern_model *m, const char *written);

/* --- collect.c, advice.c ------------------------------------------------------------------------------------------------ */
/* `e` and `measured` NULL: nothing ran. */
qn_status qn_report_collect(qn_report *r, quern_model *m, const quern_evaluation *e, const qn_measure *measured);
void qn_report_advise(qn_report *r);
/* Whether the layers' errors roughly add up to that of all together; else they amplify or make up for each other, as those of a rounding that compensates do. */
bool qn_report_adds_up(const qn_report *r);
/* Indices of layers by damage, most first: share, else the noise of the layer's own rounding, else that of its weight. n_layers of them. */
size_t *qn_report_ranking(const qn_report *r, qn_arena *a);

/* How the files begin, and how a former one is known. */
#define QN_REPORT_JSON_BEGINS "{ \"format\": \"quern-report\""
#define QN_REPORT_HTML_BEGINS "<!doctype html>\n<!-- quern report -->"

/* --- writers ------------------------------------------------------------------------------------------------------------- */
void qn_report_json(const qn_report *r, qn_text *t);
void qn_report_html(const qn_report *r, qn_text *t);

#endif
