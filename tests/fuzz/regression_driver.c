/* regression_driver.c - feeds files to a fuzz target without libFuzzer, so that its corpus runs as an ordinary test with any compiler.
 *
 * usage: PROGRAM (FILE | FOLDER)...   Exit 0 when every file was read and survived; a finding ends the process as it would under libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_run;

static int run_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(size ? size : 1);
	if (!f || !data || fread(data, 1, size, f) != size) {
		fprintf(stderr, "cannot read '%s'\n", path);
		if (f)
			fclose(f);
		free(data);
		return 1;
	}
	fclose(f);
	fprintf(stderr, "%s (%zu bytes)\n", path, size);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	n_run++;
	return 0;
}

static int run_path(const char *path)
{
	struct stat st;
	if (stat(path, &st)) {
		fprintf(stderr, "'%s' is not there\n", path);
		return 1;
	}
	if (!S_ISDIR(st.st_mode))
		return run_file(path, (size_t)st.st_size);
	struct dirent **list;
	int n = scandir(path, &list, NULL, alphasort), failed = n < 0;
	for (int i = 0; i < n; i++) {
		char inner[4096];
		if (list[i]->d_name[0] != '.')
			failed |= snprintf(inner, sizeof inner, "%s/%s", path, list[i]->d_name) >= (int)sizeof inner || run_path(inner);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;
	for (int i = 1; i < argc; i++)
		failed |= run_path(argv[i]);
	if (!n_run)
		fprintf(stderr, "no file to run\n");
	return failed || !n_run;
}
