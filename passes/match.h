/* match.h - which layers a name means. */
#ifndef QN_MATCH_H
#define QN_MATCH_H

#include "passes/plan.h"

/* Calls fn for each layer that `name` means, and fails, with the nearest names, when it means none. A name means the layers whose node, weight or
 * output it is, whole; else those in whose names it is a run of whole components ('/' and '.' separate): layers.1 means layers.1.fc but not layers.11.fc.
 * '*' and '?' match within a component, a last '*' matches all components that follow. */
qn_status qn_match_layers(qn_ctx *ctx, qn_plan *p, const char *what, const char *name, void (*fn)(void *user, qn_layer *l), void *user);

#endif
