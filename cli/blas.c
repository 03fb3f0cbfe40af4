/* blas.c - the kernels of OpenBLAS that suit the processor.
 *
 * A release of OpenBLAS takes a processor that is newer than itself for one of the oldest, and is then several times slower than it could be. Its environment
 * variable is read when the library is loaded, so the command starts itself once more with it set. Of the newer kernels only Haswell's are taken: they are the
 * oldest of the fast ones, and right on every processor that has their instructions. */
#include "cli/cli.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void cli_choose_kernels(char **argv)
{
	const char *core = getenv("OPENBLAS_CORETYPE") ? NULL : better_core();
	if (!core)
		return;
	setenv("OPENBLAS_CORETYPE", core, 1);
	execv("/proc/self/exe", argv); /* where it fails the work is only slower */
}
