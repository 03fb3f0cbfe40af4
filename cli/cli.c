/* cli.c - option parsing, messages and progress for every command. */
#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
	int threads;
	bool quiet, verbose;
	bool bar_shown;
	struct timespec began;
	char stage[64];
} state;

static const cli_option common[] = {
	{"threads", "N", "work on N threads (default: all cores); results do not depend on it", 0},
	{"quiet", NULL, "no progress and no notes, only warnings and errors", 0},
	{"verbose", NULL, "say more about what is done", 0},
	{"help", NULL, "print this", 0},
	{0},
};

static bool is_in(const cli_option *o, const char *without) { return !o->key || !without || !strchr(without, o->key); }

static void print_options(const cli_option *o, const char *without)
{
	for (; o->name; o++) {
		if (!is_in(o, without))
			continue;
		char left[64];
		snprintf(left, sizeof left, "%s%s%s%s", o->name[1] ? "--" : "-", o->name, o->value ? " " : "", o->value ? o->value : "");
		printf("  %-28s %s\n", left, o->help);
	}
}

static int print_help(const cli_command *c)
{
	printf("usage: quern %s\n\n%s\n\noptions\n", c->usage, c->about);
	print_options(c->options, NULL);
	if (c->shared)
		print_options(c->shared, c->without);
	print_options(common, NULL);
	return EXIT_DONE;
}

int cli_usage(const cli_command *c, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	fputs("quern: ", stderr);
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\nusage: quern %s   (--help says more)\n", c->usage);
	va_end(args);
	return EXIT_USAGE;
}

static const cli_option *find(const cli_option *o, const char *without, const char *name, size_t n)
{
	for (; o->name; o++)
		if (is_in(o, without) && strlen(o->name) == n && !strncmp(o->name, name, n))
			return o;
	return NULL;
}

static int take_common(const cli_command *c, const cli_option *o, const char *value)
{
	if (!strcmp(o->name, "quiet"))
		state.quiet = true;
	else if (!strcmp(o->name, "verbose"))
		state.verbose = true;
	else if (!strcmp(o->name, "threads")) {
		char *end;
		long n = strtol(value, &end, 10);
		if (*end || n < 1 || n > 1024)
			return cli_usage(c, "--threads: '%s' is no number from 1 to 1024", value);
		state.threads = (int)n;
	}
	return 0;
}

int cli_parse(const cli_command *c, int argc, char **argv, void *user, const char **args, int max_args, int *n_args)
{
	*n_args = 0;
	bool only_args = false;
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i];
		if (only_args || a[0] != '-' || !a[1]) {
			if (*n_args >= max_args)
				return cli_usage(c, "unexpected argument '%s'", a);
			args[(*n_args)++] = a;
			continue;
		}
		if (!strcmp(a, "--")) {
			only_args = true;
			continue;
		}
		const char *name = a + 1 + (a[1] == '-'), *equals = a[1] == '-' ? strchr(name, '=') : NULL;
		size_t n = equals ? (size_t)(equals - name) : strlen(name);
		const cli_option *o = find(c->options, NULL, name, n);
		if (!o && c->shared)
			o = find(c->shared, c->without, name, n);
		const cli_option *shared = o ? NULL : find(common, NULL, name, n);
		if (shared && !strcmp(shared->name, "help"))
			return print_help(c);
		if (!o && !shared)
			return cli_usage(c, "unknown option '%s'", a);
		const char *value = equals ? equals + 1 : NULL;
		bool wants = (o ? o : shared)->value != NULL;
		if (wants && !value) {
			if (++i >= argc)
				return cli_usage(c, "option '%s' needs a value", a);
			value = argv[i];
		}
		if (!wants && value)
			return cli_usage(c, "option '--%.*s' takes no value", (int)n, name);
		int code = o ? c->take(user, o->key, value) : take_common(c, shared, value);
		if (code)
			return code;
	}
	return -1;
}

void cli_end_progress(void)
{
	if (state.bar_shown)
		fputs("\r\033[K", stderr);
	state.bar_shown = false;
}

static void on_log(void *user, quern_log_level level, const char *text)
{
	(void)user;
	if ((level == QUERN_LOG_DEBUG && !state.verbose) || (level == QUERN_LOG_INFO && state.quiet))
		return;
	cli_end_progress();
	fprintf(stderr, "%s%s\n", level == QUERN_LOG_WARN ? "warning: " : "", text);
}

/* An interrupt stops the work at its next step, so that nothing half-written stays; a second one ends the process. */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static void catch_interrupts(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

static bool on_progress(void *user, const char *stage, size_t done, size_t total)
{
	(void)user;
	if (state.quiet || !isatty(STDERR_FILENO) || !total)
		return !interrupted;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (strncmp(state.stage, stage, sizeof state.stage - 1)) {
		snprintf(state.stage, sizeof state.stage, "%s", stage);
		state.began = now;
	}
	double gone = (double)(now.tv_sec - state.began.tv_sec) + 1e-9 * (double)(now.tv_nsec - state.began.tv_nsec);
	enum { WIDTH = 30 };
	int full = (int)(done * WIDTH / total);
	fprintf(stderr, "\r%-12s [%.*s%*s] %zu/%zu", stage, full, "##############################", WIDTH - full, "", done, total);
	if (done && gone > 1)
		fprintf(stderr, "  %.0f s left", gone * (double)(total - done) / (double)done);
	fputs("\033[K", stderr);
	fflush(stderr);
	state.bar_shown = true;
	if (done == total)
		cli_end_progress();
	return !interrupted;
}

quern_context *cli_open(void)
{
	catch_interrupts();
	quern_context *ctx = quern_open(&(quern_options){.log = on_log, .progress = on_progress, .threads = state.threads});
	if (!ctx) {
		fputs("quern: out of memory\n", stderr);
		exit(EXIT_FAILED);
	}
	return ctx;
}

void cli_configure(quern_context *ctx) { quern_set_threads(ctx, state.threads); }

int cli_fail(quern_context *ctx)
{
	cli_end_progress();
	fprintf(stderr, "quern: %s\n", quern_message(ctx));
	return EXIT_FAILED;
}

void cli_json_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		unsigned char ch = (unsigned char)*s;
		if (ch == '"' || ch == '\\')
			fprintf(f, "\\%c", ch);
		else if (ch < 0x20)
			fprintf(f, "\\u%04x", ch);
		else
			fputc(ch, f);
	}
	fputc('"', f);
}

void cli_json_member(const char *before, const char *key, const char *text)
{
	if (!text)
		return;
	printf("%s\"%s\": ", before, key);
	cli_json_string(stdout, text);
}

const char *cli_bytes(uint64_t n)
{
	static char ring[8][32];
	static int at;
	char *b = ring[at++ & 7];
	if (n < 10000)
		snprintf(b, sizeof ring[0], "%llu B", (unsigned long long)n);
	else if (n < 1000000)
		snprintf(b, sizeof ring[0], "%.1f kB", (double)n / 1e3);
	else
		snprintf(b, sizeof ring[0], "%.1f MB", (double)n / 1e6);
	return b;
}
