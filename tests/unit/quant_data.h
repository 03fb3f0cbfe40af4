/* quant_data.h - seeded weights of several characters for the quantizers' tests. */
#ifndef QN_TEST_QUANT_DATA_H
#define QN_TEST_QUANT_DATA_H

#include <math.h>
#include <stdint.h>

typedef struct seeded {
	uint64_t state; /* not 0 */
} seeded;

static inline double uniform(seeded *s)
{
	s->state ^= s->state << 13;
	s->state ^= s->state >> 7;
	s->state ^= s->state << 17;
	return (double)(s->state >> 11) / 9007199254740992.0;
}

static inline float normal(seeded *s)
{
	return (float)(sqrt(-2 * log(uniform(s) + 1e-300)) * cos(6.283185307179586 * uniform(s)));
}

enum { NORMAL, HEAVY, SPARSE, WHOLE, TINY, WIDE, KINDS };
static const char *const kind_names[KINDS] = {"normal", "heavy-tailed", "sparse", "whole numbers", "tiny", "wide range"};

/* n weights; whole blocks of zeros and ties of the largest magnitude occur in SPARSE and WHOLE, scales that f16 cannot hold well in TINY
 * and WIDE. */
static inline void fill(seeded *s, int kind, float *w, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float x = normal(s);
		switch (kind) {
		case HEAVY:
			x = x * x * x * 0.1f;
			break;
		case SPARSE:
			x = uniform(s) < 0.02 ? x : 0;
			break;
		case WHOLE:
			x = (float)(int)(x * 4);
			break;
		case TINY:
			x = ldexpf(x, -8 - (int)(i / 256 % 24));
			break;
		case WIDE:
			x = ldexpf(x, -40 + (int)(i / 256 % 80));
			break;
		default:
			x *= 0.05f;
		}
		w[i] = x;
	}
}

#endif
