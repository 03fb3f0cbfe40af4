#include "graph/ops/_gemm.h"
#include <cblas.h>
#include <stdlib.h>

/* Only a library that chooses its kernels at run time has these. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

/* The kernels for what the processor can do; NULL: leave the library's choice. */
static const char *better_core(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
	static const char *const plain[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Sandybridge", "Generic"};
	const char *core = openblas_get_corename();
	__builtin_cpu_init();
	bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
		&& __builtin_cpu_supports("avx512dq");
	for (size_t i = 0; i < QN_LEN(plain); i++)
		if (!strcmp(core, plain[i]))
			return wide ? "SkylakeX" : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : NULL;
#endif
	return NULL;
}

/* OpenBLAS takes its oldest kernels on a processor that is newer than itself, which costs a factor of five. At load time, before any
 * thread can be in a product, the choice can be made again. An OPENBLAS_CORETYPE of the user's stands. */
__attribute__((constructor)) static void choose_kernels(void)
{
	if (!gotoblas_dynamic_init || !gotoblas_dynamic_quit || getenv("OPENBLAS_CORETYPE"))
		return;
	const char *core = better_core();
	if (!core || setenv("OPENBLAS_CORETYPE", core, 1) != 0)
		return;
	gotoblas_dynamic_quit();
	gotoblas_dynamic_init();
	unsetenv("OPENBLAS_CORETYPE");
}

void qn_blas_ready(void)
{
	if (openblas_get_num_threads() != 1) /* the tiles are the parallelism; a product split by BLAS would depend on the thread count */
		openblas_set_num_threads(1);
}
