/* convert.c - loops that a compiler vectorizes; data of mapped files may be unaligned, so elements are read with memcpy. */
#include "graph/convert.h"

enum { BLOCK = 32, Q4_0_BYTES = 18, Q8_1_BYTES = 36 };

/* The same value as qn_f16_to_f32, without a branch: the exponent's bias is made up by a product, which is exact. */
static inline float half_value(uint16_t h)
{
	uint32_t abs = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16, bits = abs << 13;
	float f;
	memcpy(&f, &bits, sizeof f);
	f *= 0x1p112f;
	memcpy(&bits, &f, sizeof bits);
	bits = abs >= 0x7c00u ? 0x7f800000u | (abs & 0x3ffu) << 13 : bits;
	bits |= sign;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static void from_half(const char *s, float *d, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint16_t h;
		memcpy(&h, s + i * 2, sizeof h);
		d[i] = half_value(h);
	}
}

static void from_bfloat(const char *s, float *d, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint16_t h;
		memcpy(&h, s + i * 2, sizeof h);
		uint32_t bits = (uint32_t)h << 16;
		memcpy(&d[i], &bits, sizeof bits);
	}
}

static void to_16(const char *s, char *d, int64_t n, uint16_t (*round)(float))
{
	for (int64_t i = 0; i < n; i++) {
		float f;
		memcpy(&f, s + i * 4, sizeof f);
		uint16_t h = round(f);
		memcpy(d + i * 2, &h, sizeof h);
	}
}

static void from_q4_0(const uint8_t *s, float *d, int64_t n)
{
	for (int64_t b = 0; b < n / BLOCK; b++, s += Q4_0_BYTES, d += BLOCK) {
		float scale = half_value(qn_get_u16(s));
		for (int i = 0; i < BLOCK / 2; i++) {
			d[i] = (float)((s[2 + i] & 15) - 8) * scale;
			d[i + BLOCK / 2] = (float)((s[2 + i] >> 4) - 8) * scale;
		}
	}
}

static void from_q8_1(const uint8_t *s, float *d, int64_t n)
{
	for (int64_t b = 0; b < n / BLOCK; b++, s += Q8_1_BYTES, d += BLOCK) {
		float scale = half_value(qn_get_u16(s));
		for (int i = 0; i < BLOCK; i++)
			d[i] = (float)(int8_t)s[4 + i] * scale;
	}
}

static bool to_f32(const void *src, qn_dtype from, float *d, int64_t n)
{
	const int8_t *codes = src;
	switch (from) {
	case QN_F16:
		from_half(src, d, n);
		return true;
	case QN_BF16:
		from_bfloat(src, d, n);
		return true;
	case QN_I8:
		for (int64_t i = 0; i < n; i++)
			d[i] = (float)codes[i];
		return true;
	case QN_Q4_0:
		from_q4_0(src, d, n);
		return n % BLOCK == 0;
	case QN_Q8_1:
		from_q8_1(src, d, n);
		return n % BLOCK == 0;
	default:
		return false;
	}
}

bool qn_convert_fast(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n)
{
	if (from == to && from != QN_BOOL && qn_dtype_size(from)) {
		memcpy(dst, src, (size_t)n * qn_dtype_size(from));
		return true;
	}
	if (to == QN_F32 && (uintptr_t)dst % sizeof(float) == 0)
		return to_f32(src, from, dst, n);
	if (from == QN_F32 && (to == QN_F16 || to == QN_BF16)) {
		to_16(src, dst, n, to == QN_F16 ? qn_f32_to_f16 : qn_f32_to_bf16);
		return true;
	}
	return false;
}
