/* context.h (private) - the public context is our own with nothing around it. */
#ifndef QN_CONTEXT_H
#define QN_CONTEXT_H

#include "graph/base.h"
#include <quern/config.h>

struct quern_context {
	qn_ctx ctx;
};

#endif
