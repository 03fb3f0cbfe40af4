/* damage.h - how far one tensor is from another, summed over samples. */
#ifndef QN_DAMAGE_H
#define QN_DAMAGE_H

#include "graph/tensor.h"

typedef struct qn_damage {
	double cosines; /* sum over samples */
	double signal, noise;
	double largest;
	double kl;      /* sum over rows */
	int64_t samples, rows;
} qn_damage;

/* Adds one sample: `got` against `exact`, of one shape. The index of the first element that is NaN or infinite in `got` only; -1: none (then it was added).
 * Elements that are equal infinities in both count as exact. */
int64_t qn_damage_add(qn_damage *d, qn_arena *scratch, const qn_tensor *exact, const qn_tensor *got);
/* Adds the Kullback-Leibler divergence, in bits, of the distributions whose logits are the rows (last axis). */
void qn_damage_add_kl(qn_damage *d, qn_arena *scratch, const qn_tensor *exact, const qn_tensor *got);

double qn_damage_cosine(const qn_damage *d);
double qn_damage_sqnr(const qn_damage *d); /* dB; infinite without noise */
double qn_damage_kl(const qn_damage *d);   /* mean over rows; -1 without rows */

#endif
