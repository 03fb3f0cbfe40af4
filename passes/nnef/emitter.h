/* emitter.h - the state behind graph/emit.h, shared by the emit_*.c files only. */
#ifndef QN_EMITTER_H
#define QN_EMITTER_H

#include "graph/names.h"
#include "passes/nnef/emit_graph.h"

/* A variable that the archive holds. */
typedef struct qn_stored {
	struct qn_stored *next; /* of the same type, dims and sample */
	const char *id;
	qn_value *value;       /* where its content can be loaded again, or */
	const qn_tensor *kept; /* a copy of it */
	int rank;              /* as stored; dims of 1 in front may differ between equal ones */
} qn_stored;

/* What is known of one value of the graph. */
typedef struct qn_emitted {
	const char *id;                      /* its identifier, NULL before it has one */
	bool defined;                        /* a statement has given it a content */
	const char *ranked[QN_MAX_RANK + 1]; /* expressions of it at other ranks */
} qn_emitted;

struct qn_emitter {
	qn_emit base;          /* given to rows, with node and arena set anew for each */
	qn_archive *ar;        /* NULL: nothing is written */
	qn_arena *arena;       /* lives to the end of the emission */
	qn_arena node_scratch; /* texts of one node: base.arena */
	qn_arena weight;       /* one constant's content */
	qn_arena other;        /* the one it is compared with */
	qn_text externals, variables, body;
	qn_names *ids;         /* identifiers in use */
	qn_names *labels;      /* labels in use, in lower case */
	qn_names *symbols;     /* original text -> identifier */
	qn_names *fragments;   /* name -> definition */
	qn_text symbol_lines, fragment_text;
	qn_text quantization;  /* graph.quant */
	qn_names *stored;      /* key of type, dims and sample -> qn_stored */
	qn_emitted *values;    /* by value id */
	bool *needed;          /* by value id: some emitted node or an output reads it */
	qn_status status;      /* the first failure of a call that cannot return one; the message is in ctx */
	bool transformers;
	uint64_t bytes;        /* of all variables, headers not counted */
};

/* Keeps the first failure; returns text that may stand in an expression until the driver stops. */
const char *qn_emitter_fail(qn_emitter *em, qn_status status);

/* Whether the content is known at compile time: such a value is written where it is used, and its producer is not. */
static inline bool qn_emit_known(const qn_value *v) { return v->is_const || v->fact.value; }

/* "id = expr;" in the body; a bare name or number is no operation in NNEF and so becomes a copy: emit_text.c */
void qn_emit_statement(qn_emitter *em, const char *id, const char *expr);

/* The same for an output of the graph. The engine names an output after the last node that it wires for the statement, and gives the
 * plain name to the first: where that is another one, a step of its own that changes nothing (a leaky ReLU of slope 1; exact, NaN and
 * -0 included) carries the name. */
void qn_emit_port(qn_emitter *em, const char *id, qn_dtype type, const char *expr);

/* --- names: emit_names.c ------------------------------------------------------------------------------------- */
/* An unused identifier made of `text`, from now on in use. */
const char *qn_emit_identifier(qn_emitter *em, const char *text);
/* An unused label for a variable made of `text`, from now on in use. */
const char *qn_emit_label(qn_emitter *em, const char *text);
/* The identifier of a dim symbol, declared on first use. */
const char *qn_emit_symbol(qn_emitter *em, const char *text);

/* --- constants: emit_const.c --------------------------------------------------------------------------------- */
/* Expression for a known value with unit axes in front up to `rank`. `plain`: a lone element may be a bare literal, whatever its rank. */
const char *qn_emit_known_ref(qn_emitter *em, qn_value *v, int rank, bool plain);
/* Nested list in brackets: "[[B, 3]]"; `rank` brackets, units in front. */
const char *qn_emit_nested(qn_emitter *em, const qn_tensor *t, int rank);

#endif
