/* config.h (private) - the fields behind a quern_config. */
#ifndef QN_CONFIG_H
#define QN_CONFIG_H

#include "graph/emit.h"
#include "passes/quant/quant.h"
#include <quern/config.h>

enum { QN_CONFIG_ROLES = 6 }; /* query key value output ffn head, in the order of qn_role */

typedef struct qn_pin {
	const char *name;
	int weight_bits, act_bits; /* 0: not given */
} qn_pin;

typedef struct qn_name_list {
	const char **v;
	size_t n, cap;
} qn_name_list;

typedef struct qn_set {
	const char *symbol;
	int64_t size;
} qn_set;

struct quern_config {
	quern_context *context;
	qn_ctx *ctx;
	qn_arena arena;
	/* BitConfig */
	bool mixed_precision;
	int weight_bits[QN_CONFIG_ROLES], act_bits[QN_CONFIG_ROLES];             /* of mixed precision */
	int asked_weight_bits[QN_CONFIG_ROLES], asked_act_bits[QN_CONFIG_ROLES]; /* 0: not asked; over the ones above */
	qn_name_list weight_16, act_16;
	qn_pin *pins;
	size_t n_pins, cap_pins;
	int embedding_bits;
	bool dynamic_activations;
	/* the rest */
	qn_rounding rounding;
	double percentile;
	qn_target target;
	bool strict;
	qn_set *sets;
	size_t n_sets, cap_sets;
};

#endif
