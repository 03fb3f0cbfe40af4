/* cli.h - what the commands share: exit codes, the context with its callbacks, option parsing. The CLI sees only the public header. */
#ifndef QUERN_CLI_H
#define QUERN_CLI_H

#include <quern/quern.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int cmd_compile(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_tensor(int argc, char **argv);

/* --- options ------------------------------------------------------------------------------------------------- */
typedef struct cli_option {
	const char *name;  /* without dashes; one letter: -o */
	const char *value; /* name of its value in the help, NULL: a flag */
	const char *help;
	char key;          /* passed to the handler */
} cli_option;

typedef struct cli_command {
	const char *usage;
	const char *about;
	const cli_option *options; /* ends with a NULL name */
	const cli_option *shared;  /* the same, options of several commands; NULL: none */
	const char *without;       /* keys of shared options that this command does not have; NULL: it has all */
	/* returns 0, or EXIT_USAGE after it said why */
	int (*take)(void *user, char key, const char *value);
} cli_command;

/* Parses argv[1..]; positional arguments go to args (at most max_args). Returns -1 to go on, else the exit code (--help was printed, or the
 * usage is wrong). --threads, --quiet, --verbose and --help belong to every command. */
int cli_parse(const cli_command *c, int argc, char **argv, void *user, const char **args, int max_args, int *n_args);
int cli_usage(const cli_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* First of all: sees to it that OpenBLAS and OpenMP suit this machine. May start the program again. */
void cli_prepare_libraries(char **argv);

/* --- context ------------------------------------------------------------------------------------------------- */
/* A context whose warnings go to stderr and whose progress is a bar on a terminal. Exits when the heap is exhausted. */
quern_context *cli_open(void);
/* Gives the context what --threads said, once the options are parsed. */
void cli_configure(quern_context *ctx);
/* Prints "quern: message" and returns EXIT_FAILED. */
int cli_fail(quern_context *ctx);
void cli_end_progress(void);

/* --- numbers ------------------------------------------------------------------------------------------------- */
/* The decimal number that `s` begins with, an exponent allowed: 30, 0.5, 3e7. *end: what follows it, `s` where there is none. NAN: none, or too large. */
double cli_number(const char *s, const char **end);
/* The same of a text that is nothing but the number. */
double cli_only_number(const char *s);

/* --- text ---------------------------------------------------------------------------------------------------- */
void cli_json_string(FILE *f, const char *s);
/* `before`, then "key": "text" to stdout; nothing where text is NULL. */
void cli_json_member(const char *before, const char *key, const char *text);
/* "12.3 MB"; in a static ring of buffers */
const char *cli_bytes(uint64_t n);

#endif
