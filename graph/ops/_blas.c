#include "graph/ops/_gemm.h"
#include <cblas.h>

void qn_blas_ready(void)
{
	if (openblas_get_num_threads() != 1) /* the tiles are the parallelism; a product split by BLAS would depend on the thread count */
		openblas_set_num_threads(1);
}
