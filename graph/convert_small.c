/* convert_small.c - floats of 8 and 4 bits and integers of 4 and 2 bits, each kept in a byte of its own.
 *
 * Float codes are a sign, exponent bits and mantissa bits; the rows below say where a format leaves the IEEE pattern. float8e8m0 is an
 * exponent alone, so a power of two. */
#include "graph/convert.h"

#include <assert.h>
#include <math.h>

/* What the codes past the largest finite one stand for. */
typedef enum {
	ONLY_FINITE,   /* nothing: every code is a number */
	NAN_ONLY,      /* the code with all ones is NaN */
	INF_AND_NAN,   /* as in IEEE 754 */
	NAN_FOR_MINUS, /* all codes are numbers, but that of -0 is NaN */
} specials;

static const struct form {
	int exponent, mantissa, bias;
	specials specials;
} forms[QN_DTYPE_COUNT] = {
	[QN_F8E4M3FN] = {4, 3, 7, NAN_ONLY},
	[QN_F8E4M3FNUZ] = {4, 3, 8, NAN_FOR_MINUS},
	[QN_F8E5M2] = {5, 2, 15, INF_AND_NAN},
	[QN_F8E5M2FNUZ] = {5, 2, 16, NAN_FOR_MINUS},
	[QN_F4E2M1] = {2, 1, 1, ONLY_FINITE},
};

enum { E8M0_BIAS = 127, E8M0_NAN = 255 };

static int all_ones(const struct form *f)
{
	return (1 << (f->exponent + f->mantissa)) - 1;
}

/* The largest finite code without its sign. */
static int largest(const struct form *f)
{
	int ones = all_ones(f);
	return f->specials == NAN_ONLY ? ones - 1 : f->specials == INF_AND_NAN ? ones - (1 << f->mantissa) : ones;
}

double qn_small_value(qn_dtype type, uint8_t code)
{
	if (type == QN_F8E8M0)
		return code == E8M0_NAN ? NAN : ldexp(1, code - E8M0_BIAS);
	const struct form *f = &forms[type];
	int ones = all_ones(f), magnitude = code & ones, sign = code & (ones + 1);
	if (f->specials == NAN_FOR_MINUS && sign && !magnitude)
		return NAN;
	if (magnitude > largest(f))
		return f->specials == INF_AND_NAN && magnitude == largest(f) + 1 ? (sign ? -INFINITY : INFINITY) : NAN;
	int exponent = magnitude >> f->mantissa, mantissa = magnitude & ((1 << f->mantissa) - 1);
	double v = exponent ? ldexp((1 << f->mantissa) + mantissa, exponent - f->bias - f->mantissa)
			    : ldexp(mantissa, 1 - f->bias - f->mantissa);
	return sign ? -v : v;
}

/* The code of the magnitude `v` as if the exponents went on for ever; the default rounding mode is half to even. */
static int rounded(const struct form *f, double v)
{
	enum { BEYOND = 1 << 20 };
	if (isinf(v))
		return BEYOND;
	int exponent;
	frexp(v, &exponent);
	exponent = v > 0 && exponent - 1 > 1 - f->bias ? exponent - 1 : 1 - f->bias;
	/* a mantissa that rounds up to the next power of two carries into the exponent by itself */
	return (int)nearbyint(ldexp(v, f->mantissa - exponent)) + ((exponent + f->bias - 1) << f->mantissa);
}

/* The sign plays no part, and a subnormal f32 counts as the least exponent. */
static uint8_t to_e8m0(double v, bool saturate, qn_small_round round)
{
	float f = (float)v;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	int exponent = (int)(bits >> 23 & 255);
	uint32_t rest = bits & 0x7fffff, half = 0x400000;
	if (exponent == E8M0_NAN)
		return E8M0_NAN;
	bool up = round == QN_ROUND_UP ? rest > 0 : round == QN_ROUND_NEAREST && (rest > half || (rest == half && exponent > 0));
	if (up && !(saturate && exponent == E8M0_NAN - 1))
		exponent++;
	return (uint8_t)exponent;
}

uint8_t qn_small_code(qn_dtype type, double v, bool saturate, qn_small_round round)
{
	if (type == QN_F8E8M0)
		return to_e8m0(v, saturate, round);
	const struct form *f = &forms[type];
	int ones = all_ones(f), minus = ones + 1, sign = signbit(v) ? minus : 0;
	if (isnan(v))
		return (uint8_t)(f->specials == NAN_FOR_MINUS || f->specials == ONLY_FINITE ? minus : sign | ones);
	int code = rounded(f, fabs(v));
	if (code > largest(f)) {
		if (saturate || f->specials == ONLY_FINITE)
			code = largest(f);
		else if (f->specials == NAN_FOR_MINUS)
			return (uint8_t)minus;
		else
			code = f->specials == INF_AND_NAN ? largest(f) + 1 : ones;
	}
	return (uint8_t)(code == 0 && f->specials == NAN_FOR_MINUS ? 0 : sign | code);
}

uint8_t qn_small_int(qn_dtype type, uint64_t bits)
{
	int width = type == QN_I4 || type == QN_U4 ? 4 : 2, mask = (1 << width) - 1, low = (int)(bits & (uint64_t)mask);
	bool minus = (type == QN_I4 || type == QN_I2) && low >> (width - 1);
	return (uint8_t)(minus ? low - mask - 1 : low);
}

void qn_convert_rounded(const void *src, qn_dtype from, void *dst, qn_dtype to, int64_t n, bool saturate, qn_small_round round)
{
	assert(qn_dtype_is_small_float(to));
	qn_tensor t = {.type = from, .data = src};
	for (int64_t i = 0; i < n; i++)
		((uint8_t *)dst)[i] = qn_small_code(to, qn_tensor_get(&t, i), saturate, round);
}

const qn_tensor *qn_tensor_plain(qn_arena *a, const qn_tensor *t)
{
	qn_dtype plain = qn_dtype_plain(t->type);
	if (plain == t->type)
		return t;
	qn_tensor *y = qn_tensor_new(a, plain, t->rank, t->dim);
	qn_convert(t->data, t->type, (void *)(uintptr_t)y->data, plain, qn_tensor_count(t));
	return y;
}
