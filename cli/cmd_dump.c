/* cmd_dump.c - quern dump */
#include "cli/cli.h"

typedef struct options {
	bool json, text;
} options;

static const cli_option option_list[] = {
	{"json", NULL, "print an object", 'j'},
	{"text", NULL, "print graph.nnef itself", 't'},
	{0},
};

static int take(void *user, char key, const char *value)
{
	options *o = user;
	(void)value;
	*(key == 'j' ? &o->json : &o->text) = true;
	return 0;
}

static const cli_command command = {"dump ARCHIVE [--json]",
	"Describes an NNEF archive (.nnef.tgz, .nnef.tar or a folder): inputs, outputs, operators, variables with their types, shapes\n"
	"and bytes.",
	option_list, NULL, NULL, take};

/* Sums by storage type, in order of first appearance. */
typedef struct total {
	const char *type;
	size_t count;
	uint64_t bytes;
} total;
enum { MOST_TYPES = 32 };

static int sum_types(const quern_archive *ar, total *totals)
{
	int n = 0;
	for (size_t i = 0; i < quern_archive_variables(ar); i++) {
		quern_variable v;
		quern_archive_variable(ar, i, &v);
		int k = 0;
		while (k < n && totals[k].type != v.type) /* names of types are one object each */
			k++;
		if (k == MOST_TYPES)
			k = MOST_TYPES - 1;
		else if (k == n)
			totals[n++] = (total){v.type, 0, 0};
		totals[k].count++;
		totals[k].bytes += v.bytes;
	}
	return n;
}

static void print_port(const char *what, const quern_port *p) { printf("%-9s %s = %s\n", what, p->name, p->definition); }

static void print_text(const quern_archive *ar)
{
	printf("graph %s\n", quern_archive_graph_name(ar));
	printf("symbols  ");
	for (size_t i = 0; i < quern_archive_symbols(ar); i++)
		printf(" %s", quern_archive_symbol(ar, i));
	puts(quern_archive_symbols(ar) ? "" : " none");
	for (size_t i = 0; i < quern_archive_inputs(ar); i++) {
		quern_port p;
		quern_archive_input(ar, i, &p);
		print_port("input", &p);
	}
	for (size_t i = 0; i < quern_archive_outputs(ar); i++) {
		quern_port p;
		quern_archive_output(ar, i, &p);
		print_port("output", &p);
	}
	printf("\n%8s  operator\n", "count");
	for (size_t i = 0; i < quern_archive_operators(ar); i++) {
		quern_operator o;
		quern_archive_operator(ar, i, &o);
		printf("%8zu  %s\n", o.count, o.name);
	}
	printf("\n%-12s %12s  %-20s variable\n", "type", "bytes", "shape");
	for (size_t i = 0; i < quern_archive_variables(ar); i++) {
		quern_variable v;
		char shape[128] = "scalar";
		quern_archive_variable(ar, i, &v);
		for (int k = 0, at = 0; k < v.rank; k++)
			at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%lld", k ? "x" : "", (long long)v.shape[k]);
		printf("%-12s %12llu  %-20s %s%s\n", v.type, (unsigned long long)v.bytes, shape, v.label,
			v.used ? "" : "   (not declared in graph.nnef)");
	}
	total totals[MOST_TYPES];
	int n = sum_types(ar, totals);
	uint64_t all = 0;
	putchar('\n');
	for (int k = 0; k < n; k++) {
		printf("%-12s %12llu  in %zu variables\n", totals[k].type, (unsigned long long)totals[k].bytes, totals[k].count);
		all += totals[k].bytes;
	}
	printf("%-12s %12llu  in %zu variables\n", "all", (unsigned long long)all, quern_archive_variables(ar));
}

static void print_json_port(const quern_port *p, bool first)
{
	printf("%s\n  {\"name\": ", first ? "" : ",");
	cli_json_string(stdout, p->name);
	printf(", \"definition\": ");
	cli_json_string(stdout, p->definition);
	printf("}");
}

static void print_json(const quern_archive *ar)
{
	printf("{\"graph\": ");
	cli_json_string(stdout, quern_archive_graph_name(ar));
	printf(", \"symbols\": [");
	for (size_t i = 0; i < quern_archive_symbols(ar); i++) {
		printf(i ? ", " : "");
		cli_json_string(stdout, quern_archive_symbol(ar, i));
	}
	printf("],\n\"inputs\": [");
	for (size_t i = 0; i < quern_archive_inputs(ar); i++) {
		quern_port p;
		quern_archive_input(ar, i, &p);
		print_json_port(&p, i == 0);
	}
	printf("],\n\"outputs\": [");
	for (size_t i = 0; i < quern_archive_outputs(ar); i++) {
		quern_port p;
		quern_archive_output(ar, i, &p);
		print_json_port(&p, i == 0);
	}
	printf("],\n\"operators\": {");
	for (size_t i = 0; i < quern_archive_operators(ar); i++) {
		quern_operator o;
		quern_archive_operator(ar, i, &o);
		printf(i ? ", " : "");
		cli_json_string(stdout, o.name);
		printf(": %zu", o.count);
	}
	printf("},\n\"variables\": [");
	uint64_t all = 0;
	for (size_t i = 0; i < quern_archive_variables(ar); i++) {
		quern_variable v;
		quern_archive_variable(ar, i, &v);
		printf("%s\n  {\"label\": ", i ? "," : "");
		cli_json_string(stdout, v.label);
		printf(", \"type\": \"%s\", \"shape\": [", v.type);
		for (int k = 0; k < v.rank; k++)
			printf("%s%lld", k ? ", " : "", (long long)v.shape[k]);
		printf("], \"bytes\": %llu, \"used\": %s}", (unsigned long long)v.bytes, v.used ? "true" : "false");
		all += v.bytes;
	}
	printf("],\n\"bytes\": %llu}\n", (unsigned long long)all);
}

int cmd_dump(int argc, char **argv)
{
	options o = {0};
	quern_context *ctx = cli_open();
	const char *path;
	int n, code = cli_parse(&command, argc, argv, &o, &path, 1, &n);
	if (code < 0 && n != 1)
		code = cli_usage(&command, "give one archive");
	if (code < 0) {
		cli_configure(ctx);
		quern_archive *ar;
		code = EXIT_DONE;
		if (quern_archive_open(ctx, path, &ar) != QUERN_OK)
			code = cli_fail(ctx);
		else if (o.text)
			fputs(quern_archive_graph_text(ar), stdout);
		else
			(o.json ? print_json : print_text)(ar);
		quern_archive_free(ar);
	}
	quern_close(ctx);
	return code;
}
