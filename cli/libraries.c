/* libraries.c - what OpenBLAS and OpenMP are to do, which they read from the environment when they are loaded: so the command starts
 * itself once more with it set. What the user has set stays.
 *
 * A release of OpenBLAS takes a processor that is newer than itself for one of the oldest, and is then several times slower than it could be. Of its
 * newer kernels only Haswell's are taken: they are the oldest of the fast ones, and right on every processor that has their instructions.
 *
 * Threads of GNU's OpenMP wait for work in a loop of some milliseconds. Where other programs want the processor too, they take it from those that
 * they wait for: three busy programs on two cores make rounding by gptq three times slower, and cost three times the processor time. */
#include "cli/cli.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void cli_prepare_libraries(char **argv)
{
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
