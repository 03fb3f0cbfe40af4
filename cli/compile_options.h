/* compile_options.h - the options that say how a model is compiled, for every command that compiles or evaluates one. */
#ifndef QUERN_COMPILE_OPTIONS_H
#define QUERN_COMPILE_OPTIONS_H

#include "cli/cli.h"

extern const cli_option compile_options[]; /* a command's `shared` list; the keys are theirs alone */
/* Sets what one of them says. The message of a failure is the context's. */
quern_status compile_option_apply(quern_config *config, char key, const char *value);

#endif
