/* compile_options.h - the options that say how a model is compiled, for every command that compiles or evaluates one. */
#ifndef QUERN_COMPILE_OPTIONS_H
#define QUERN_COMPILE_OPTIONS_H

#include "cli/cli.h"

extern const cli_option compile_options[]; /* a command's `shared` list; the keys are theirs alone */
/* Sets what one of them says; for a command's `take`, and returns what that returns. */
int compile_option_take(const cli_command *c, quern_context *ctx, quern_config *config, char key, const char *value);
/* cli_parse for a command that has them: in two rounds, configuration files first, so that options win over files wherever they stand. `take` sees everything
 * twice. */
int compile_options_parse(const cli_command *c, int argc, char **argv, void *user, const char **args, int max_args, int *n_args);

#endif
