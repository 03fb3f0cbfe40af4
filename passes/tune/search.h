/* search.h (private) - from what was measured to the point that was asked for. */
#ifndef QN_TUNE_SEARCH_H
#define QN_TUNE_SEARCH_H

#include "passes/tune/tuner.h"

/* Whether the smallest widths are within the size or the bits that the options give: QUERN_ERR_CONFIG where not. */
qn_status qn_search_can_meet(const qn_tuner *t);
/* Chooses for the options. *measured: the chosen point's error where it was executed, else NAN. QUERN_ERR_CONFIG when the options cannot be met. */
qn_status qn_search(qn_tuner *t, qn_solution *s, double *measured);
/* Executes as many points of the curve as the options say, evenly over it; the choice stays. */
qn_status qn_check_curve(qn_tuner *t, qn_solution *s, qn_tuning *u);

#endif
