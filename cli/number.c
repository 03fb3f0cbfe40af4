/* number.c - numbers as people write them. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double cli_number(const char *s, const char **end)
{
	char *stop;
	double v = strtod(s, &stop);
	bool decimal = strspn(s, "+-.0123456789eE") >= (size_t)(stop - s); /* strtod takes 0x10, nan and infinity too */
	*end = decimal ? stop : s;
	return decimal && isfinite(v) ? v : NAN;
}

double cli_only_number(const char *s)
{
	const char *end;
	double v = cli_number(s, &end);
	return end != s && !*end ? v : NAN;
}
