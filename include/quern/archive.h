/* archive.h - what an NNEF archive holds. Included by quern.h. */
#ifndef QUERN_ARCHIVE_H
#define QUERN_ARCHIVE_H

typedef struct quern_archive quern_archive;

/* Reads a folder, a .nnef.tar or a .nnef.tgz, from whatever program; tensors are checked (header, type, dims, sizes) but not kept.
 * Members that are absolute, have "..", are links, or do not hold what they claim are an error that names them. On failure *archive is
 * NULL. Strings live as long as the archive. */
QUERN_API quern_status quern_archive_open(quern_context *ctx, const char *path, quern_archive **archive);
QUERN_API void quern_archive_free(quern_archive *archive);

typedef struct quern_variable {
	const char *label;
	const char *type; /* "f32", "q4_0", "q4_0-legacy", "bool-packed", ... */
	int rank;
	int64_t shape[8];
	uint64_t bytes;   /* of data; the header takes 128 more */
	bool used;        /* graph.nnef declares it */
} quern_variable;

/* Sorted by label. */
QUERN_API size_t quern_archive_variables(const quern_archive *archive);
QUERN_API void quern_archive_variable(const quern_archive *archive, size_t i, quern_variable *out);

typedef struct quern_port {
	const char *name;
	/* of an input: "external<scalar>(shape=[batch, 16])"; of an output: the expression that computes it */
	const char *definition;
} quern_port;

QUERN_API size_t quern_archive_inputs(const quern_archive *archive);
QUERN_API size_t quern_archive_outputs(const quern_archive *archive);
QUERN_API void quern_archive_input(const quern_archive *archive, size_t i, quern_port *out);
QUERN_API void quern_archive_output(const quern_archive *archive, size_t i, quern_port *out);

/* Operators of the graph's body by name, most frequent first; infix ones under their names ("add"). Externals and
 * variables are not among them. */
typedef struct quern_operator {
	const char *name;
	size_t count;
} quern_operator;
QUERN_API size_t quern_archive_operators(const quern_archive *archive);
QUERN_API void quern_archive_operator(const quern_archive *archive, size_t i, quern_operator *out);

/* The dim symbols that graph.nnef declares, in order. */
QUERN_API size_t quern_archive_symbols(const quern_archive *archive);
QUERN_API const char *quern_archive_symbol(const quern_archive *archive, size_t i);
QUERN_API const char *quern_archive_graph_name(const quern_archive *archive);
/* The text of graph.nnef. */
QUERN_API const char *quern_archive_graph_text(const quern_archive *archive);

#endif
