/* libraries.c - what OpenBLAS, OpenMP and the C library are to do. The first two read it from the environment when they are loaded: so the
 * command starts itself once more with it set. What the user has set stays.
 *
 * A release of OpenBLAS takes a processor that is newer than itself for one of the oldest, and is then several times slower than it could be. Of its
 * newer kernels only Haswell's are taken: they are the oldest of the fast ones, and right on every processor that has their instructions.
 *
 * Threads of GNU's OpenMP wait for work in a loop of some milliseconds. Where other programs want the processor too, they take it from those that
 * they wait for: three busy programs on two cores make rounding by gptq three times slower, and cost three times the processor time.
 *
 * GNU's C library gives large blocks back to the system as soon as they are free. Activations are such blocks, needed again by the next node,
 * and pages that are new each time cost a fifth of the time of short samples. */
#include "cli/cli.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { KEPT_BYTES = 256 << 20, LARGEST_KEPT = 32 << 20 };
static const char SPINS[] = "1000"; /* what the library takes itself where it runs more threads than there are processors */

static const char *better_core(void)
{
#if defined(__x86_64__)
	static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom"};
	const char *core = openblas_get_corename();
	for (size_t i = 0; i < sizeof old / sizeof *old; i++)
		if (!strcmp(core, old[i]))
			return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : NULL;
#endif
	return NULL;
}

static void keep_free_blocks(void)
{
#ifdef __GLIBC__
	if (getenv("MALLOC_TRIM_THRESHOLD_") || getenv("MALLOC_MMAP_THRESHOLD_"))
		return;
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT);
#endif
}

void cli_prepare_libraries(char **argv)
{
	keep_free_blocks();
	const char *core = getenv("OPENBLAS_CORETYPE") ? NULL : better_core();
	bool spins = !getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY");
	if (!core && !spins)
		return;
	if (core)
		setenv("OPENBLAS_CORETYPE", core, 1);
	if (spins)
		setenv("GOMP_SPINCOUNT", SPINS, 1);
	execv("/proc/self/exe", argv); /* where it fails the work is only slower */
}
