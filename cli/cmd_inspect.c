/* cmd_inspect.c - quern inspect */
#include "cli/cli.h"

#include <string.h>

typedef struct options {
	quern_context *ctx;
	quern_config *config;
	bool json, dump;
} options;

static const cli_option option_list[] = {
	{"json", NULL, "print an object with a `layers` array", 'j'},
	{"graph", NULL, "print the graph with its symbolic shapes instead", 'd'},
	{"set", "SYMBOL=N", "bind a dynamic dim by its original text (repeatable)", 's'},
	{0},
};

static int take(void *user, char key, const char *value);
static const cli_command command = {"inspect MODEL.onnx [--json]",
	"Lists each use of a weight: role, block, node, weight, shape, bytes, and whether Q4_0 can hold it.", option_list, NULL, NULL, take};

static int take(void *user, char key, const char *value)
{
	options *o = user;
	if (key == 'j')
		o->json = true;
	else if (key == 'd')
		o->dump = true;
	else if (quern_config_set_symbol(o->config, value) != QUERN_OK)
		return cli_usage(&command, "%s", quern_message(o->ctx));
	return 0;
}

static void shape_text(const quern_layer *l, char *out, size_t size)
{
	size_t at = 0;
	for (int i = 0; i < l->rank && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "x" : "", (long long)l->shape[i]);
}

/* Row numbers as runs: "0-63,128-191". */
static void print_rows(const quern_part *p)
{
	for (int64_t i = 0; i < p->n;) {
		int64_t k = i;
		while (k + 1 < p->n && p->rows[k + 1] == p->rows[k] + 1)
			k++;
		printf("%s[%lld, %lld]", i ? ", " : "", (long long)p->rows[i], (long long)p->rows[k] + 1);
		i = k + 1;
	}
}

static void print_json_layer(const quern_model *m, size_t i)
{
	quern_layer l;
	quern_model_layer(m, i, &l);
	cli_json_member(i ? ",\n  {" : "\n  {", "node", l.node);
	printf(", \"op\": \"%s\", \"weight\": ", l.op);
	cli_json_string(stdout, l.weight);
	cli_json_member(", ", "output", l.output);
	if (*l.role)
		printf(", \"role\": \"%s\"", l.role);
	else
		printf(", \"role\": null");
	printf(", \"block\": %d, \"cross\": %s, \"shape\": [", l.block, l.cross ? "true" : "false");
	for (int k = 0; k < l.rank; k++)
		printf("%s%lld", k ? ", " : "", (long long)l.shape[k]);
	printf("], \"type\": \"%s\", \"bytes\": %llu, \"q4_0\": %s", l.type, (unsigned long long)l.bytes, l.not_q4 ? "false" : "true");
	cli_json_member(", ", "notQ4_0", l.not_q4);
	cli_json_member(", ", "reason", l.why);
	if (l.n_parts) {
		printf(", \"parts\": [");
		for (int k = 0; k < l.n_parts; k++) {
			quern_part p;
			quern_model_part(m, i, k, &p);
			printf("%s{\"role\": \"%s\", \"rows\": [", k ? ", " : "", p.role);
			print_rows(&p);
			printf("]}");
		}
		printf("]");
	}
	printf("}");
}

static void print_json(const quern_model *m)
{
	printf("{\"layers\": [");
	for (size_t i = 0; i < quern_model_layers(m); i++)
		print_json_layer(m, i);
	printf("\n], \"attentions\": [");
	for (size_t i = 0; i < quern_model_attentions(m); i++) {
		quern_attention a;
		quern_model_attention(m, i, &a);
		cli_json_member(i ? ",\n  {" : "\n  {", "node", a.node);
		printf(", \"block\": %d, \"cross\": %s, \"heads\": ", a.block, a.cross ? "true" : "false");
		if (a.heads)
			printf("%lld", (long long)a.heads);
		else
			printf("null");
		printf(", \"rotary\": %s, \"mask\": \"%s\", \"positionBias\": %s}", a.rotary ? "true" : "false", a.mask,
			a.position_bias ? "true" : "false");
	}
	printf("\n], \"otherBytes\": %llu}\n", (unsigned long long)quern_model_other_bytes(m));
}

static void print_table(const quern_model *m)
{
	printf("%-10s %5s  %-14s %10s  %-5s  %s\n", "role", "block", "shape", "bytes", "Q4_0", "node, weight");
	uint64_t total = 0;
	for (size_t i = 0; i < quern_model_layers(m); i++) {
		quern_layer l;
		char shape[128], block[16] = "-";
		quern_model_layer(m, i, &l);
		shape_text(&l, shape, sizeof shape);
		if (l.block >= 0)
			snprintf(block, sizeof block, "%d%s", l.block, l.cross ? "x" : "");
		printf("%-10s %5s  %-14s %10s  %-5s  %s, %s\n", *l.role ? l.role : "none", block, shape, cli_bytes(l.bytes), l.not_q4 ? "no" : "yes",
			l.node, l.weight);
		if (l.why)
			printf("%18s no role: %s\n", "", l.why);
		if (l.not_q4)
			printf("%18s no Q4_0: %s\n", "", l.not_q4);
		total += l.bytes;
	}
	printf("%zu layers, %s; other constants %s (block x: cross attention)\n", quern_model_layers(m), cli_bytes(total),
		cli_bytes(quern_model_other_bytes(m)));
}

static void print_attentions(const quern_model *m)
{
	for (size_t i = 0; i < quern_model_attentions(m); i++) {
		quern_attention a;
		char heads[48] = "";
		quern_model_attention(m, i, &a);
		if (a.heads)
			snprintf(heads, sizeof heads, ", %lld heads", (long long)a.heads);
		printf("block %d: %sattention%s%s%s, mask %s: %s\n", a.block, a.cross ? "cross " : "", heads, a.rotary ? ", rotary" : "",
			a.position_bias ? ", position bias" : "", a.mask, a.node);
	}
}

int cmd_inspect(int argc, char **argv)
{
	options o = {0};
	o.ctx = cli_open();
	o.config = quern_config_new(o.ctx);
	const char *path;
	int n;
	int code = cli_parse(&command, argc, argv, &o, &path, 1, &n);
	if (code < 0 && n != 1)
		code = cli_usage(&command, "give one model");
	if (code < 0) {
		cli_configure(o.ctx);
		quern_model *m;
		if (quern_model_load(o.ctx, path, o.config, &m) != QUERN_OK) {
			code = cli_fail(o.ctx);
		} else {
			code = EXIT_DONE;
			if (o.dump)
				fputs(quern_model_dump(m), stdout);
			else
				(o.json ? print_json : print_table)(m);
			if (!o.dump && !o.json)
				print_attentions(m);
		}
		quern_model_free(m);
	}
	quern_config_free(o.config);
	quern_close(o.ctx);
	return code;
}
