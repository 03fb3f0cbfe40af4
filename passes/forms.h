/* forms.h - the stored form that a width gives a layer. */
#ifndef QN_FORMS_H
#define QN_FORMS_H

#include "passes/plan.h"

/* From weight_bits (and those of its parts): form, bytes, and `reason` where the form for the width cannot hold the weight and a wider one is taken (else NULL;
 * text in `a`). Reads the weight. */
qn_status qn_layer_give_form(qn_graph *g, qn_arena *a, qn_layer *l);

/* Whether the configuration asks for a weight width of that very role (false for roles that have none to ask for). */
bool qn_role_is_asked(const quern_config *c, qn_role r);
bool qn_role_act_is_asked(const quern_config *c, qn_role r); /* an activation width */

#endif
