/* u8_chain.c - compressors of u8 codes: bit packing and run lengths. */
#include <quern/qtensor.h>

#include <string.h>

/* --- bit packing: a number of bits travels in the user pointer ----------------------------------------- */

static int bits_of(void *user)
{
	return (int)(intptr_t)user;
}

static size_t packed_bytes(void *user, size_t n)
{
	return n / 8 * (size_t)bits_of(user) + (n % 8 * (size_t)bits_of(user) + 7) / 8;
}

static bool pack(void *user, const uint8_t *in, size_t n, uint8_t *out, size_t *n_out)
{
	int bits = bits_of(user), have = 0;
	unsigned held = 0;
	uint8_t *at = out;
	for (size_t i = 0; i < n; i++) {
		if (in[i] >> bits)
			return false;
		held |= (unsigned)in[i] << have;
		for (have += bits; have >= 8; have -= 8, held >>= 8)
			*at++ = (uint8_t)held;
	}
	if (have)
		*at++ = (uint8_t)held;
	*n_out = (size_t)(at - out);
	return true;
}

static bool unpack(void *user, const uint8_t *in, size_t n, uint8_t *out, size_t n_out)
{
	int bits = bits_of(user), have = 0;
	unsigned held = 0;
	if (n != packed_bytes(user, n_out))
		return false;
	for (size_t i = 0; i < n_out; i++) {
		if (have < bits) {
			held |= (unsigned)*in++ << have;
			have += 8;
		}
		out[i] = (uint8_t)(held & ((1u << bits) - 1));
		held >>= bits;
		have -= bits;
	}
	return held == 0; /* the rest of the last byte is empty */
}

quern_u8_compressor quern_u8_bit_packing(int n_bits)
{
	int bits = n_bits < 1 ? 1 : n_bits > 8 ? 8 : n_bits;
	return (quern_u8_compressor){"bit packing", (void *)(intptr_t)bits, packed_bytes, pack, unpack};
}

/* --- run lengths: a count byte below 128 and that many plus one literal bytes, or 126 + length (2..129) and the byte that repeats ----- */

enum { LITERAL = 128, LONGEST = 129, REPEAT = 126 };

static size_t run_bound(void *user, size_t n)
{
	(void)user;
	return n + n / LITERAL + 1;
}

static size_t run_at(const uint8_t *in, size_t n)
{
	size_t run = 1;
	while (run < n && run < LONGEST && in[run] == in[0])
		run++;
	return run;
}

static bool run_compress(void *user, const uint8_t *in, size_t n, uint8_t *out, size_t *n_out)
{
	(void)user;
	uint8_t *at = out;
	for (size_t i = 0; i < n;) {
		size_t run = run_at(in + i, n - i);
		if (run >= 2) {
			*at++ = (uint8_t)(REPEAT + run);
			*at++ = in[i];
			i += run;
			continue;
		}
		/* a pair within literals costs what it saves, so only three equal bytes end them */
		size_t end = i + 1;
		while (end < n && end - i < LITERAL && run_at(in + end, n - end) < 3)
			end++;
		*at++ = (uint8_t)(end - i - 1);
		memcpy(at, in + i, end - i);
		at += end - i;
		i = end;
	}
	*n_out = (size_t)(at - out);
	return true;
}

static bool run_decompress(void *user, const uint8_t *in, size_t n, uint8_t *out, size_t n_out)
{
	(void)user;
	size_t done = 0;
	for (size_t i = 0; i < n;) {
		size_t head = in[i++];
		bool literal = head < LITERAL;
		size_t length = literal ? head + 1 : head - REPEAT, taken = literal ? length : 1;
		if (length > n_out - done || taken > n - i)
			return false;
		if (literal)
			memcpy(out + done, in + i, length);
		else
			memset(out + done, in[i], length);
		done += length;
		i += taken;
	}
	return done == n_out;
}

quern_u8_compressor quern_u8_run_length(void)
{
	return (quern_u8_compressor){"run length", NULL, run_bound, run_compress, run_decompress};
}
