/* half.c - conversions between f32 and the 16-bit floats, in integer arithmetic so that every machine gives the same bits. */
#include "graph/base.h"

#include <math.h>

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

enum { F32_INF = 0x7f800000, F16_INF = 0x7c00, F16_QUIET = 0x200, BF16_QUIET = 0x40 };
enum { F16_MIN_NORMAL = 0x38800000, F16_OVERFLOW = 0x47800000 }; /* 2^-14 and 2^16 as f32 bits */

uint16_t qn_f32_to_f16(float f)
{
	uint32_t u = bits_of(f), abs = u & 0x7fffffff;
	uint16_t sign = (uint16_t)((u >> 16) & 0x8000);
	if (abs > F32_INF)
		return (uint16_t)(sign | F16_INF | F16_QUIET | ((abs >> 13) & 0x1ff));
	if (abs >= F16_OVERFLOW)
		return sign | F16_INF;
	if (abs >= F16_MIN_NORMAL) {
		abs += 0xfff + ((abs >> 13) & 1);
		/* a carry out of the largest finite value lands on infinity by itself */
		return (uint16_t)(sign | ((abs - ((127 - 15) << 23)) >> 13));
	}
	int exponent = (int)(abs >> 23);
	if (exponent < 127 - 25) /* below half of the smallest subnormal */
		return sign;
	uint32_t mantissa = (abs & 0x7fffff) | 0x800000;
	int shift = 126 - exponent;
	uint32_t h = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
	if (rest > half || (rest == half && (h & 1)))
		h++;
	return (uint16_t)(sign | h);
}

float qn_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, abs = h & 0x7fff;
	if (abs >= F16_INF)
		return float_of(sign | F32_INF | (abs & 0x3ff) << 13);
	if (abs >= 0x400)
		return float_of(sign | ((abs << 13) + ((127 - 15) << 23)));
	float f = ldexpf((float)abs, -24);
	return sign ? -f : f;
}

uint16_t qn_f32_to_bf16(float f)
{
	uint32_t u = bits_of(f);
	if ((u & 0x7fffffff) > F32_INF)
		return (uint16_t)(u >> 16 | BF16_QUIET);
	return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float qn_bf16_to_f32(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}
