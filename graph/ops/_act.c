#include "graph/ops/_act.h"

#include <math.h>

qn_status qn_act_check(qn_call *c, qn_act a, int most_bits)
{
	if (!(a.scale > 0) || isinf(a.scale))
		QN_OP_FAIL(c, QUERN_ERR_CONFIG, "an activation scale of %g, it must be a positive number", (double)a.scale);
	if (a.bits < 1 || a.bits > most_bits)
		QN_OP_FAIL(c, QUERN_ERR_CONFIG, "activations of %d bits, it can be 1 to %d", a.bits, most_bits);
	int low, high;
	qn_act_levels(a.bits, &low, &high);
	if (a.zero_point < low || a.zero_point > high)
		QN_OP_FAIL(c, QUERN_ERR_CONFIG, "an activation zero point of %d, %d bits hold %d to %d", a.zero_point, a.bits, low, high);
	return QUERN_OK;
}

void qn_act_bounds(qn_act a, float *low, float *high)
{
	int least, most;
	qn_act_levels(a.bits, &least, &most);
	*low = (float)(least - a.zero_point) * a.scale;
	*high = (float)(most - a.zero_point) * a.scale;
}

const char *qn_act_emit_clamp(qn_emit *e, const char *x, qn_act a, int full)
{
	float low, high;
	qn_act_bounds(a, &low, &high);
	if (a.bits >= full)
		return x;
	return qn_emit_temp(e, "clipped", "clamp(%s, %s, %s)", x, qn_emit_float(e, low), qn_emit_float(e, high));
}

const char *qn_act_emit_cast(qn_emit *e, const char *hint, const char *x, float scale, int zero_point)
{
	const char *s = qn_emit_float(e, scale);
	const char *id = qn_emit_temp(e, hint, "tract_core_cast(%s, to='QI8(Z:%d S:%s)')", x, zero_point, s);
	qn_emit_quantization(e, id, scale, zero_point);
	return id;
}
