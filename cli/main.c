/* main.c - picks the command. */
#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{"compile", cmd_compile, "turn an ONNX transformer into a quantized NNEF archive"},
	{"inspect", cmd_inspect, "list layers, roles, shapes and bytes of a model"},
	{"tune", cmd_tune, "find the width of each layer for a size or an accuracy"},
	{"eval", cmd_eval, "show how far the compiled model is from float, layer by layer"},
	{"run", cmd_run, "run a model in float on given inputs"},
	{"dump", cmd_dump, "describe an archive"},
	{"tensor", cmd_tensor, "quantize one array to a .dat file"},
};

static void print_commands(FILE *f)
{
	fprintf(f, "usage: quern COMMAND ...   (quern COMMAND --help says more)\n\n");
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].about);
}

/* A result that could not be written is a failure. */
static int finish(int code)
{
	bool early = ferror(stdout); /* in the middle of a long result, whose end may fit */
	if (!fflush(stdout) && !early)
		return code;
	if (early)
		fputs("quern: cannot write the result: only a part of it was written\n", stderr);
	else
		perror("quern: cannot write the result");
	return code == EXIT_DONE ? EXIT_FAILED : code;
}

/* The numbers of streams that the caller closed are not to be those of files that are opened here; what is written to them still fails. */
static void occupy_streams(void)
{
	int fd;
	while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd > STDERR_FILENO)
		close(fd);
}

int main(int argc, char **argv)
{
	occupy_streams();
	cli_prepare_libraries(argv);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write, which says so and cleans up */
	if (argc < 2) {
		print_commands(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help") || !strcmp(argv[1], "-h")) {
		print_commands(stdout);
		return finish(EXIT_DONE);
	}
	if (!strcmp(argv[1], "--version")) {
		puts("quern " QUERN_VERSION);
		return finish(EXIT_DONE);
	}
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(argv[1], commands[i].name))
			return finish(commands[i].run(argc - 1, argv + 1));
	fprintf(stderr, "quern: no command '%s'\n", argv[1]);
	print_commands(stderr);
	return EXIT_USAGE;
}
