/* test_schema.c - schema/ and the tables of docs/config.md are what the list of fields says. With QUERN_UPDATE=1 in the environment, schema/config.schema.json
 * is written anew and rows that docs/config.md lacks are printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/allocation.h"
#include "passes/config_fields.h"
#include "passes/json.h"

#include <math.h>

static qn_ctx ctx;
static qn_arena arena;

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	return 0;
}

static const char *file_text(const char *path)
{
	qn_text t = {.arena = &arena};
	FILE *f = fopen(path, "rb");
	char part[4096];
	qn_text_add(&t, "%s", "");
	for (size_t n; f && (n = fread(part, 1, sizeof part, f));)
		qn_text_bytes(&t, part, n);
	if (f)
		fclose(f);
	return t.s;
}

/* --- the schema of configurations -------------------------------------------------------------------------------------------- */
static const char LAYERS[] = "\"type\": \"array\", \"items\": {\"type\": \"string\", \"minLength\": 1}";
static const char WIDTH[] = "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 2147483647}";

static void add_number(qn_text *t, const char *key, double v)
{
	qn_text_add(t, ", \"%s\": ", key);
	qn_json_double(t, v);
}

static void add_overrides(qn_text *t)
{
	qn_text_add(t, "\"type\": \"object\", \"additionalProperties\": false, \"properties\": {");
	for (int i = 0; i < QN_OVERRIDE_COUNT; i++) {
		const qn_field *f = qn_field_find(QN_PART_CALIBRATION, "", qn_override_names[i]);
		const char *const names[] = {f->json, f->snake};
		for (int k = 0; k < 2; k++)
			qn_text_add(t, "%s\"%s\": {\"type\": \"object\", \"additionalProperties\": {%s}}", i || k ? ", " : "", names[k], LAYERS);
	}
	qn_text_add(t, "}");
}

static void add_type(qn_text *t, const qn_field *f)
{
	switch (f->kind) {
	case QN_FIELD_INT:
	case QN_FIELD_NUMBER:
		qn_text_add(t, "\"type\": \"%s\"", f->kind == QN_FIELD_INT ? "integer" : "number");
		add_number(t, "minimum", f->low);
		if (!isinf(f->high) || f->kind == QN_FIELD_INT)
			add_number(t, "maximum", isinf(f->high) ? 2147483647 : f->high);
		add_number(t, "default", f->initial);
		break;
	case QN_FIELD_BOOL:
		qn_text_add(t, "\"type\": \"boolean\", \"default\": %s", f->initial > 0 ? "true" : "false");
		break;
	case QN_FIELD_PATH:
		qn_text_add(t, "\"type\": \"string\", \"default\": \"\"");
		break;
	case QN_FIELD_PRESET:
		qn_text_add(t, "\"enum\": [\"\", \"small\", \"balanced\", \"accurate\"], \"default\": \"\"");
		break;
	case QN_FIELD_NAMES:
		qn_text_add(t, "%s, \"default\": []", LAYERS);
		break;
	case QN_FIELD_OVERRIDES:
		add_overrides(t);
		break;
	case QN_FIELD_LAYERS:
		qn_text_add(t, "\"type\": \"object\", \"propertyNames\": {\"minLength\": 1}, \"additionalProperties\": {\"type\": \"object\", \"minProperties\": 1, "
			"\"additionalProperties\": false, \"properties\": {\"weightBits\": %s, \"actBits\": %s, \"weight_bits\": %s, \"act_bits\": %s}}", WIDTH, WIDTH,
			WIDTH, WIDTH);
		break;
	}
}

static void add_field(qn_text *t, const qn_field *f, const char *name)
{
	qn_text_add(t, "\"%s\": {\"description\": ", name);
	qn_json_string(t, f->help);
	qn_text_add(t, ", ");
	add_type(t, f);
	qn_text_add(t, "}");
}

/* Under the JSON names first; the other spellings refer to them. */
static void add_part(qn_text *t, qn_config_part part)
{
	const char *sep = "", *group = "";
	size_t group_n = 0;
	qn_text_add(t, "    \"%s\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": {", qn_part_names[part]);
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *dot = strchr(f->json, '.');
		size_t n = dot ? (size_t)(dot - f->json) : 0;
		if (f->part != part)
			continue;
		bool same = n && n == group_n && !memcmp(group, f->json, n);
		qn_text_add(t, "%s%s\n      ", group_n && !same ? "}}" : "", sep);
		if (n && !same)
			qn_text_add(t, "\"%.*s\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\n      ", (int)n, f->json);
		qn_text_add(t, "%s", n ? "  " : "");
		add_field(t, f, dot ? dot + 1 : f->json);
		group = f->json;
		group_n = n;
		sep = ",";
	}
	qn_text_add(t, "%s", group_n ? "}}" : "");
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *dot = strchr(f->json, '.');
		if (f->part != part)
			continue;
		const char *place = dot ? qn_arena_printf(&arena, "%.*s/properties/%s", (int)(dot - f->json), f->json, dot + 1) : f->json;
		for (int k = 0; k < 2; k++) {
			const char *name = k ? f->snake : f->json;
			if ((k && strcmp(f->snake, f->json)) || (!k && dot))
				qn_text_add(t, ",\n      \"%s\": {\"$ref\": \"#/properties/%s/properties/%s\"}", name, qn_part_names[part], place);
		}
	}
	qn_text_add(t, "\n    }}");
}

static const char *config_schema(void)
{
	qn_text t = {.arena = &arena};
	qn_text_add(&t, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": \"quern configuration\",\n"
		"  \"type\": \"object\",\n  \"additionalProperties\": false,\n  \"properties\": {\n");
	for (int part = 0; part < QN_PART_COUNT; part++) {
		add_part(&t, (qn_config_part)part);
		qn_text_add(&t, "%s\n", part + 1 < QN_PART_COUNT ? "," : "");
	}
	qn_text_add(&t, "  }\n}\n");
	return t.s;
}

static void config_schema_is_in_step(void **state)
{
	(void)state;
	const char *path = QUERN_SOURCE_DIR "/schema/config.schema.json", *wanted = config_schema();
	const cJSON *tree;
	if (qn_json_parse(&ctx, &arena, "schema", wanted, strlen(wanted), &tree) != QUERN_OK)
		fail_msg("%s", ctx.message);
	if (getenv("QUERN_UPDATE")) {
		FILE *f = fopen(path, "wb");
		assert_non_null(f);
		fputs(wanted, f);
		fclose(f);
	}
	if (strcmp(file_text(path), wanted))
		fail_msg("%s is not what passes/config_fields.c says; run this test with QUERN_UPDATE=1", path);
}

/* --- the tables of the docs ---------------------------------------------------------------------------------------------------- */
static const char *default_text(const qn_field *f)
{
	qn_text t = {.arena = &arena};
	switch (f->kind) {
	case QN_FIELD_INT:
	case QN_FIELD_NUMBER:
		qn_json_double(&t, f->initial);
		return t.s;
	case QN_FIELD_BOOL:
		return f->initial > 0 ? "true" : "false";
	case QN_FIELD_PATH:
	case QN_FIELD_PRESET:
		return "\"\"";
	case QN_FIELD_NAMES:
		return "[]";
	case QN_FIELD_OVERRIDES:
		return "{\"actScaleMin\": {\"0.0005\": []}}";
	case QN_FIELD_LAYERS:
		break;
	}
	return "{}";
}

static void docs_are_in_step(void **state)
{
	(void)state;
	const char *docs = file_text(QUERN_SOURCE_DIR "/docs/config.md");
	int missing = 0;
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *row = qn_arena_printf(&arena, "| `%s` | `%s` | `%s` | %s | %s |\n", f->snake, f->json, default_text(f), qn_field_range(&arena, f), f->help);
		if (strstr(docs, row))
			continue;
		missing++;
		printf("%s", row);
	}
	if (missing)
		fail_msg("docs/config.md lacks the %d rows above", missing);
}

/* --- the schema of allocations --------------------------------------------------------------------------------------------------- */
/* A file with one more key, of the value null, as the first of the object that the letter stands before. */
static const char *allocation_with(char where, const char *key)
{
	static const char file[] = "{f\"format\": \"quern-allocation\", \"version\": 1, \"model\": {m\"fingerprint\": \"\"}, \"layers\": [{l\"name\": \"n\", "
		"\"weightBits\": 4, \"actBits\": 8, \"parts\": [{p\"role\": \"query\", \"rows\": [[0, 1]], \"weightBits\": 4}], \"error\": {e\"cosine\": 1}}], "
		"\"outputs\": [{o\"name\": \"y\", \"scale\": [1], \"zeroPoint\": [0]}]}";
	qn_text t = {.arena = &arena};
	for (const char *p = file; *p; p++) {
		bool letter = p > file && p[-1] == '{';
		if (!letter)
			qn_text_bytes(&t, p, 1);
		else if (*p == where)
			qn_text_add(&t, "\"%s\": null, ", key);
	}
	return t.s;
}

/* A key that the schema has is one that the reader knows: whatever it says of the value null, it is not that. */
static void known_keys(char where, const cJSON *properties)
{
	const cJSON *p;
	qn_allocation *f;
	const char *text = allocation_with('-', "");
	if (qn_allocation_parse(&ctx, &arena, "a.json", text, strlen(text), &f) != QUERN_OK)
		fail_msg("%s", ctx.message);
	text = allocation_with(where, "unheard");
	assert_int_equal(qn_allocation_parse(&ctx, &arena, "a.json", text, strlen(text), &f), QUERN_ERR_CONFIG);
	assert_non_null(strstr(ctx.message, "'unheard' (null) is not known"));
	assert_non_null(properties);
	cJSON_ArrayForEach(p, properties)
	{
		text = allocation_with(where, p->string);
		assert_int_equal(qn_allocation_parse(&ctx, &arena, "a.json", text, strlen(text), &f), QUERN_ERR_CONFIG);
		if (strstr(ctx.message, "is not known"))
			fail_msg("schema/allocation.schema.json has '%s', which the reader does not know", p->string);
	}
}

/* The other direction: tests/engine/allocations.py validates files that hold every key. */
static void allocation_schema_is_in_step(void **state)
{
	(void)state;
	const char *path = QUERN_SOURCE_DIR "/schema/allocation.schema.json";
	const cJSON *schema;
	if (qn_json_read(&ctx, &arena, path, 1 << 20, &schema) != QUERN_OK)
		fail_msg("%s", ctx.message);
	const cJSON *file = cJSON_GetObjectItem(schema, "properties"), *layer = cJSON_GetObjectItem(cJSON_GetObjectItem(schema, "$defs"), "layer");
	const cJSON *layers = cJSON_GetObjectItem(layer, "properties"), *part = cJSON_GetObjectItem(cJSON_GetObjectItem(layers, "parts"), "items");
	known_keys('f', file);
	known_keys('m', cJSON_GetObjectItem(cJSON_GetObjectItem(file, "model"), "properties"));
	known_keys('o', cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(file, "outputs"), "items"), "properties"));
	known_keys('l', layers);
	known_keys('p', cJSON_GetObjectItem(part, "properties"));
	known_keys('e', cJSON_GetObjectItem(cJSON_GetObjectItem(layers, "error"), "properties"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(config_schema_is_in_step, setup, teardown),
		cmocka_unit_test_setup_teardown(docs_are_in_step, setup, teardown),
		cmocka_unit_test_setup_teardown(allocation_schema_is_in_step, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
