/* sniff.c - what a file that is no ONNX model might be. */
#include "graph/onnx/mapfile.h"

#include <strings.h>

typedef struct magic {
	size_t at;
	const char *bytes;
	size_t n;
	const char *what;
} magic;

#define MAGIC(at, bytes, what)                                                                                                             \
	{                                                                                                                                  \
		at, bytes, sizeof(bytes) - 1, what                                                                                         \
	}

static const magic magics[] = {
	MAGIC(0, "PK", "a zip archive (a PyTorch checkpoint, or a model packed with its data); unpack it, or export to ONNX"),
	MAGIC(0, "version https://git-lfs", "a Git LFS pointer, not the file itself; fetch the content with 'git lfs pull'"),
	MAGIC(0, "\x1f\x8b", "a gzip file; decompress it first"),
	MAGIC(0, "BZh", "a bzip2 file; decompress it first"),
	MAGIC(0,
		"\xfd"
		"7zXZ",
		"an xz file; decompress it first"),
	MAGIC(0, "\x28\xb5\x2f\xfd", "a zstd file; decompress it first"),
	MAGIC(257, "ustar", "a tar archive; unpack it first"),
	MAGIC(0, "GGUF", "a GGUF model of llama.cpp; export the original model to ONNX"),
	MAGIC(0, "\x89HDF", "an HDF5 file (a Keras model); export it to ONNX"),
	MAGIC(0, "\x93NUMPY", "a NumPy array"),
	MAGIC(0, "\x80\x02", "a Python pickle (an old PyTorch checkpoint); export the model to ONNX"),
	MAGIC(0, "\x80\x04", "a Python pickle (a PyTorch checkpoint); export the model to ONNX"),
	MAGIC(0, "%PDF", "a PDF document"),
	MAGIC(4, "ORTM", "a model in ONNX Runtime's own format (.ort); give the .onnx file that it was made from"),
	MAGIC(4, "TFL3", "a TensorFlow Lite model; export the original model to ONNX"),
};

/* A length of eight bytes, then that much JSON. */
static bool is_safetensors(qn_bytes b)
{
	if (b.n < 10 || b.data[8] != '{')
		return false;
	uint64_t header = qn_get_u32(b.data) | (uint64_t)qn_get_u32(b.data + 4) << 32;
	return header >= 2 && header <= b.n - 8;
}

static bool is_text(qn_bytes b)
{
	for (size_t i = 0; i < b.n && i < 256; i++)
		if ((b.data[i] < ' ' && !(b.data[i] >= '\t' && b.data[i] <= '\r')) || b.data[i] == 0x7f)
			return false;
	return true;
}

static bool begins(qn_bytes b, const char *text)
{
	size_t n = strlen(text);
	return b.n >= n && !strncasecmp((const char *)b.data, text, n);
}

const char *qn_sniff(qn_bytes b)
{
	if (!b.n)
		return "an empty file; the download or the export may have failed";
	for (size_t i = 0; i < QN_LEN(magics); i++) {
		const magic *m = &magics[i];
		if (b.n >= m->at + m->n && !memcmp(b.data + m->at, m->bytes, m->n))
			return m->what;
	}
	if (is_safetensors(b))
		return "a safetensors file: weights only, without the graph; give the .onnx file beside it or export the model to ONNX";
	if (!is_text(b))
		return NULL;
	while (b.n && (*b.data == ' ' || (*b.data >= '\t' && *b.data <= '\r')))
		b = (qn_bytes){b.data + 1, b.n - 1};
	if (begins(b, "<!doctype") || begins(b, "<html") || begins(b, "<head"))
		return "an HTML page (a login or error page saved in place of the file); download it again";
	if (begins(b, "<"))
		return "an XML or HTML text";
	if (begins(b, "{") || begins(b, "["))
		return "a JSON text";
	/* the tag of a first field that no text begins with is a byte below the space, so a text is no model */
	return "a text file; ONNX models are binary";
}
