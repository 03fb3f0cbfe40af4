/* config_write.c - a configuration as JSON, all fields in the order of the list. */
#include "passes/config_fields.h"
#include "passes/json.h"
#include "passes/preset.h"

static void write_names(qn_text *t, const qn_name_list *list)
{
	qn_text_add(t, "[");
	for (size_t i = 0; i < list->n; i++) {
		qn_text_add(t, "%s", i ? ", " : "");
		qn_json_string(t, list->v[i]);
	}
	qn_text_add(t, "]");
}

static void write_overrides(qn_text *t, const qn_calibration_config *k)
{
	int parameters = 0;
	qn_text_add(t, "{");
	for (int p = 0; p < QN_OVERRIDE_COUNT; p++) {
		int values = 0;
		for (size_t i = 0; i < k->n_overrides; i++) {
			if (strcmp(k->overrides[i].parameter, qn_override_names[p]))
				continue;
			if (values++)
				qn_text_add(t, ", \"");
			else
				qn_text_add(t, "%s\"%s\": {\"", parameters++ ? ", " : "", qn_override_names[p]);
			qn_json_double(t, k->overrides[i].value);
			qn_text_add(t, "\": ");
			write_names(t, &k->overrides[i].layers);
		}
		qn_text_add(t, "%s", values ? "}" : "");
	}
	qn_text_add(t, "}");
}

static void write_pins(qn_text *t, const quern_config *c)
{
	qn_text_add(t, "{");
	for (size_t i = 0; i < c->n_pins; i++) {
		const qn_pin *p = &c->pins[i];
		qn_text_add(t, "%s\n\t\t\t", i ? "," : "");
		qn_json_string(t, p->name);
		qn_text_add(t, ": {");
		if (p->weight_bits)
			qn_text_add(t, "\"weightBits\": %d%s", p->weight_bits, p->act_bits ? ", " : "");
		if (p->act_bits)
			qn_text_add(t, "\"actBits\": %d", p->act_bits);
		qn_text_add(t, "}");
	}
	qn_text_add(t, c->n_pins ? "\n\t\t}" : "}");
}

static void write_value(qn_text *t, const quern_config *c, const qn_field *f)
{
	const void *at = qn_field_at(c, f);
	const char *path;
	switch (f->kind) {
	case QN_FIELD_INT:
		qn_text_add(t, "%d", *(const int *)at);
		break;
	case QN_FIELD_NUMBER:
		qn_json_double(t, *(const double *)at);
		break;
	case QN_FIELD_BOOL:
		qn_text_add(t, *(const bool *)at ? "true" : "false");
		break;
	case QN_FIELD_PATH:
		path = *(const char *const *)at;
		qn_json_string(t, path ? path : "");
		break;
	case QN_FIELD_NAMES:
		write_names(t, at);
		break;
	case QN_FIELD_OVERRIDES:
		write_overrides(t, &c->calibration);
		break;
	case QN_FIELD_LAYERS:
		write_pins(t, c);
		break;
	case QN_FIELD_PRESET:
		qn_json_string(t, qn_preset_names[c->preset]);
		break;
	}
}

/* A line for each field; a group is opened by its first field and closed after its last: they follow each other in the list. */
static void write_part(qn_text *t, const quern_config *c, qn_config_part part)
{
	const char *group = "";
	size_t group_n = 0;
	bool first = true;
	qn_text_add(t, "\t\"%s\": {", qn_part_names[part]);
	for (size_t i = 0; i < qn_field_count; i++) {
		const qn_field *f = &qn_fields[i];
		const char *dot = strchr(f->json, '.');
		size_t n = dot ? (size_t)(dot - f->json) : 0;
		if (f->part != part)
			continue;
		if (group_n && (n != group_n || memcmp(group, f->json, n))) {
			qn_text_add(t, "\n\t\t}");
			group_n = 0;
		}
		qn_text_add(t, "%s\n\t\t", first ? "" : ",");
		first = false;
		if (n && !group_n)
			qn_text_add(t, "\"%.*s\": {\n\t\t", (int)n, f->json);
		group = f->json;
		group_n = n;
		qn_text_add(t, "%s\"%s\": ", n ? "\t" : "", dot ? dot + 1 : f->json);
		write_value(t, c, f);
	}
	qn_text_add(t, "%s\n\t}", group_n ? "\n\t\t}" : "");
}

/* Widths asked for by role hold whether mixed precision is on or not, so a file that says the same has it on. */
static quern_config written_form(const quern_config *c)
{
	quern_config w = *c;
	w.embedding_bits = qn_config_embedding_bits(c);
	for (int i = 0; i < QN_CONFIG_ROLES; i++)
		w.mixed_precision |= c->asked_weight_bits[i] || c->asked_act_bits[i];
	for (int i = 0; i < QN_CONFIG_ROLES && w.mixed_precision; i++) {
		w.weight_bits[i] = qn_config_weight_bits(c, i);
		w.act_bits[i] = qn_config_act_bits(c, i);
	}
	return w;
}

void qn_config_text(const quern_config *c, qn_text *t)
{
	quern_config written = written_form(c);
	qn_text_add(t, "{\n");
	for (int part = 0; part < QN_PART_COUNT; part++) {
		write_part(t, &written, (qn_config_part)part);
		qn_text_add(t, "%s\n", part + 1 < QN_PART_COUNT ? "," : "");
	}
	qn_text_add(t, "}\n");
}

quern_status quern_config_write(quern_config *c, const char **json)
{
	QN_ENTER(c->ctx, saved, buf);
	qn_text t = {.arena = &c->arena};
	qn_config_text(c, &t);
	*json = t.s;
	QN_LEAVE(c->ctx, saved);
	return QUERN_OK;
}
