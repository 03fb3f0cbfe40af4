/* wire.c - the walk that lifts raw data out of an encoded message. */
#include "graph/onnx/wire.h"

#include <limits.h>

enum { VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 };
enum { MAX_MESSAGE_DEPTH = 4 * QN_MAX_GRAPH_LEVELS, LENGTH_ROOM = 5, TOKEN = 4 };

typedef struct walk {
	qn_ctx *ctx;
	qn_arena *tmp;
	const uint8_t *base; /* for places in messages */
	qn_lifted *lifted;
	qn_text out;
	int depth, graphs;
} walk;

typedef struct field {
	const ProtobufCFieldDescriptor *desc; /* NULL: not known */
	uint32_t id;
	int wire;
	const uint8_t *payload; /* without the length */
	size_t n;
} field;

static unsigned long long place(const walk *w, const uint8_t *p)
{
	return (unsigned long long)(p - w->base);
}

static bool get_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;
	for (int i = 0; i < 10 && *p + i < end; i++) {
		uint8_t b = (*p)[i];
		v |= (uint64_t)(b & 0x7f) << (7 * i);
		if (b < 0x80) {
			*p += i + 1;
			*out = v;
			return i < 9 || b <= 1;
		}
	}
	return false;
}

static void put_varint(walk *w, uint64_t v)
{
	uint8_t b[10];
	size_t n = 0;
	do {
		b[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	qn_text_bytes(&w->out, b, n);
}

/* Reads one field and moves *p behind it. */
static qn_status read_field(walk *w, const ProtobufCMessageDescriptor *desc, const uint8_t **p, const uint8_t *end, field *f)
{
	const uint8_t *start = *p;
	uint64_t tag, n;
	if (!get_varint(p, end, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
		QN_FAIL(w->ctx, QUERN_ERR_FORMAT, "byte %llu: no field of a message (%s) begins here; the file is damaged or no ONNX file",
			place(w, start), desc->short_name);
	*f = (field){.id = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
	f->desc = protobuf_c_message_descriptor_get_field(desc, f->id);
	const char *name = f->desc ? f->desc->name : "unknown";
	f->payload = *p;
	switch (f->wire) {
	case VARINT:
		if (!get_varint(p, end, &n))
			QN_FAIL(w->ctx, QUERN_ERR_FORMAT, "byte %llu: number in field '%s' of %s does not end", place(w, start), name,
				desc->short_name);
		f->n = (size_t)(*p - f->payload);
		return QUERN_OK;
	case BYTES:
		if (!get_varint(p, end, &n))
			QN_FAIL(w->ctx, QUERN_ERR_FORMAT, "byte %llu: length of field '%s' of %s does not end", place(w, start), name,
				desc->short_name);
		f->payload = *p;
		break;
	case FIXED64:
		n = 8;
		break;
	case FIXED32:
		n = 4;
		break;
	default:
		QN_FAIL(w->ctx, QUERN_ERR_FORMAT,
			"byte %llu: field %u of %s has wire type %d, which ONNX does not use; the file is damaged "
			"or no ONNX file",
			place(w, start), (unsigned)f->id, desc->short_name, f->wire);
	}
	if (n > (uint64_t)(end - *p))
		QN_FAIL(w->ctx, QUERN_ERR_FORMAT,
			"byte %llu: field '%s' of %s needs %llu bytes, %llu are left; the file is cut short or damaged", place(w, start),
			name, desc->short_name, (unsigned long long)n, (unsigned long long)(end - *p));
	f->n = (size_t)n;
	*p += n;
	return QUERN_OK;
}

/* What nothing here reads: texts for people, declared types of inner values, and the elements of string tensors. */
static bool is_dropped(const field *f)
{
	static const char *const names[] = {
		"doc_string", "metadata_props", "value_info", "quantization_annotation", "denotation", "string_data"};
	for (size_t i = 0; f->desc && i < QN_LEN(names); i++)
		if (!strcmp(f->desc->name, names[i]))
			return true;
	return !f->desc;
}

static int wire_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return BYTES;
	case PROTOBUF_C_TYPE_FLOAT:
		return FIXED32;
	case PROTOBUF_C_TYPE_DOUBLE:
		return FIXED64;
	default:
		return VARINT;
	}
}

static bool wire_fits(const field *f)
{
	int wire = wire_of(f->desc->type);
	return f->wire == wire || (f->wire == BYTES && f->desc->label == PROTOBUF_C_LABEL_REPEATED);
}

/* Length of the UTF-8 sequence at p, 0 when there is none. NUL would cut a name short, and \1 marks node names in the graph's table. */
static size_t utf8_length(const uint8_t *p, size_t left)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	if (*p < 0x80)
		return *p > 1;
	size_t n = (*p & 0xe0) == 0xc0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : (*p & 0xf8) == 0xf0 ? 4 : 0;
	if (!n || n > left)
		return 0;
	uint32_t c = *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static qn_status check_text(walk *w, const field *f)
{
	for (size_t i = 0, n; i < f->n; i += n)
		if (!(n = utf8_length(f->payload + i, f->n - i)))
			QN_FAIL(w->ctx, QUERN_ERR_FORMAT, "byte %llu: field '%s' is not valid UTF-8 text", place(w, f->payload + i),
				f->desc->name);
	return QUERN_OK;
}

static qn_status walk_message(walk *w, const ProtobufCMessageDescriptor *desc, const uint8_t *p, const uint8_t *end);

static qn_status walk_child(walk *w, const field *f)
{
	const ProtobufCMessageDescriptor *child = f->desc->descriptor;
	put_varint(w, (uint64_t)f->id << 3 | BYTES);
	size_t at = w->out.len;
	qn_text_bytes(&w->out, "\0\0\0\0\0", LENGTH_ROOM);
	QN_TRY(walk_message(w, child, f->payload, f->payload + f->n));
	size_t n = w->out.len - at - LENGTH_ROOM;
	if (n > INT_MAX / 2)
		QN_FAIL(w->ctx, QUERN_ERR_UNSUPPORTED,
			"byte %llu: %s has over 1 GiB besides raw data; store its tensors as raw or external data", place(w, f->payload),
			child->short_name);
	for (int i = 0; i < LENGTH_ROOM; i++) /* the length, padded to its room */
		w->out.s[at + (size_t)i] = (char)((n >> (7 * i) & 0x7f) | (i + 1 < LENGTH_ROOM ? 0x80 : 0));
	return QUERN_OK;
}

static void lift(walk *w, const field *f)
{
	uint8_t token[TOKEN];
	qn_put_u32(token, (uint32_t)w->lifted->n);
	QN_GROW(w->tmp, w->lifted->views, w->lifted->n, w->lifted->cap);
	w->lifted->views[w->lifted->n++] = (qn_bytes){f->payload, f->n};
	put_varint(w, (uint64_t)f->id << 3 | BYTES);
	put_varint(w, TOKEN);
	qn_text_bytes(&w->out, token, TOKEN);
}

static qn_status walk_field(walk *w, const field *f, bool is_raw_data)
{
	if (f->desc->type == PROTOBUF_C_TYPE_MESSAGE)
		return walk_child(w, f);
	if (is_raw_data) {
		lift(w, f);
		return QUERN_OK;
	}
	if (f->desc->type == PROTOBUF_C_TYPE_STRING)
		QN_TRY(check_text(w, f));
	put_varint(w, (uint64_t)f->id << 3 | (unsigned)f->wire);
	if (f->wire == BYTES)
		put_varint(w, f->n);
	qn_text_bytes(&w->out, f->payload, f->n);
	return QUERN_OK;
}

static qn_status walk_message(walk *w, const ProtobufCMessageDescriptor *desc, const uint8_t *p, const uint8_t *end)
{
	bool is_graph = desc == &qn__graph_proto__descriptor, is_tensor = desc == &qn__tensor_proto__descriptor;
	w->graphs += is_graph;
	if (w->graphs > QN_MAX_GRAPH_LEVELS + 1)
		QN_FAIL(w->ctx, QUERN_ERR_UNSUPPORTED, "byte %llu: subgraphs nest deeper than %d levels", place(w, p), QN_MAX_GRAPH_LEVELS);
	if (++w->depth > MAX_MESSAGE_DEPTH)
		QN_FAIL(w->ctx, QUERN_ERR_UNSUPPORTED, "byte %llu: messages nest deeper than %d levels", place(w, p), MAX_MESSAGE_DEPTH);
	uint64_t seen = 0; /* single sub-messages, by position in the descriptor */
	while (p < end) {
		const uint8_t *start = p;
		field f;
		QN_TRY(read_field(w, desc, &p, end, &f));
		if (is_dropped(&f))
			continue;
		if (!wire_fits(&f))
			QN_FAIL(w->ctx, QUERN_ERR_FORMAT,
				"byte %llu: field '%s' of %s has wire type %d; the file is damaged or no ONNX file", place(w, start),
				f.desc->name, desc->short_name, f.wire);
		if (f.desc->type == PROTOBUF_C_TYPE_MESSAGE && f.desc->label != PROTOBUF_C_LABEL_REPEATED) {
			uint64_t bit = UINT64_C(1) << ((f.desc - desc->fields) & 63);
			if (seen & bit)
				QN_FAIL(w->ctx, QUERN_ERR_FORMAT, "byte %llu: field '%s' of %s is there twice", place(w, start),
					f.desc->name, desc->short_name);
			seen |= bit;
		}
		QN_TRY(walk_field(w, &f, is_tensor && !strcmp(f.desc->name, "raw_data")));
	}
	w->depth--;
	w->graphs -= is_graph;
	return QUERN_OK;
}

static void *arena_alloc(void *arena, size_t n)
{
	return qn_arena_alloc(arena, n);
}
static void arena_free(void *arena, void *p)
{
	(void)arena, (void)p;
}

qn_status qn_wire_unpack(qn_ctx *ctx, qn_arena *tmp, const ProtobufCMessageDescriptor *desc, qn_bytes b, qn_lifted *lifted, void *out)
{
	walk w = {.ctx = ctx, .tmp = tmp, .base = b.data, .lifted = lifted, .out = {.arena = tmp}};
	QN_TRY(walk_message(&w, desc, b.data, b.data + b.n));
	ProtobufCAllocator allocator = {arena_alloc, arena_free, tmp};
	ProtobufCMessage *m = protobuf_c_message_unpack(desc, &allocator, w.out.len, (const uint8_t *)w.out.s);
	if (!m)
		QN_FAIL(ctx, QUERN_ERR_FORMAT, "the content is damaged: a list of numbers in it is malformed");
	*(ProtobufCMessage **)out = m;
	return QUERN_OK;
}

qn_bytes qn_lifted_raw(const qn_lifted *lifted, const Qn__TensorProto *t)
{
	return lifted->views[qn_get_u32(t->raw_data.data)];
}
