/* damage.c - cosine, signal to noise, largest error and divergence. Sums are taken in double, in order. */
#include "passes/damage.h"

#include <math.h>

int64_t qn_damage_add(qn_damage *d, qn_arena *scratch, const qn_tensor *exact, const qn_tensor *got)
{
	int64_t n = qn_tensor_count(exact);
	const float *x = qn_tensor_f32(scratch, exact), *y = qn_tensor_f32(scratch, got);
	double xx = 0, yy = 0, xy = 0, noise = 0, largest = 0;
	for (int64_t i = 0; i < n; i++) {
		double a = (double)x[i], b = (double)y[i];
		if (isinf(x[i]) && x[i] == y[i])
			continue;
		if (!isfinite(y[i]) || !isfinite(x[i]))
			return i;
		double e = a - b;
		xx += a * a, yy += b * b, xy += a * b, noise += e * e;
		largest = fabs(e) > largest ? fabs(e) : largest;
	}
	d->cosines += xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : xx == yy;
	d->signal += xx;
	d->noise += noise;
	d->largest = largest > d->largest ? largest : d->largest;
	d->samples++;
	return -1;
}

/* log(sum(exp(row))) */
static double log_sum(const float *row, int64_t n)
{
	double top = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		top = (double)row[i] > top ? (double)row[i] : top;
	for (int64_t i = 0; i < n; i++)
		sum += exp((double)row[i] - top);
	return top + log(sum);
}

void qn_damage_add_kl(qn_damage *d, qn_arena *scratch, const qn_tensor *exact, const qn_tensor *got)
{
	int64_t n = exact->rank ? exact->dim[exact->rank - 1] : 0, rows = n ? qn_tensor_count(exact) / n : 0;
	const float *x = qn_tensor_f32(scratch, exact), *y = qn_tensor_f32(scratch, got);
	for (int64_t r = 0; r < rows; r++, x += n, y += n) {
		double sx = log_sum(x, n), sy = log_sum(y, n), kl = 0;
		for (int64_t i = 0; i < n; i++) {
			double p = exp((double)x[i] - sx);
			if (p > 0)
				kl += p * (((double)x[i] - sx) - ((double)y[i] - sy));
		}
		d->kl += kl / log(2);
	}
	d->rows += rows;
}

double qn_damage_cosine(const qn_damage *d) { return d->samples ? d->cosines / (double)d->samples : 1; }
double qn_damage_sqnr(const qn_damage *d) { return d->noise > 0 ? 10 * log10(d->signal / d->noise) : INFINITY; }
double qn_damage_kl(const qn_damage *d) { return d->rows ? d->kl / (double)d->rows : -1; }
