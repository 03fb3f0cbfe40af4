/* observe_fixture.h - for tests of range estimators: the configuration that they vary. */
#ifndef QN_TEST_OBSERVE_FIXTURE_H
#define QN_TEST_OBSERVE_FIXTURE_H

#include "tests/unit/op_fixture.h"

#include "passes/config.h"
#include "passes/observe/observe.h"

static inline qn_calibration_config defaults(void)
{
	quern_context *c = quern_open(NULL);
	quern_config *config = quern_config_new(c);
	qn_calibration_config k = config->calibration;
	quern_config_free(config);
	quern_close(c);
	return k;
}

#endif
