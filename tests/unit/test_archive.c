/* test_archive.c - the three kinds of archive, what is refused and what failures leave behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/nnef/archive.h"
#include "passes/nnef/folder.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static qn_ctx ctx;
static qn_arena arena;
static char root[64];

static int setup(void **state)
{
	(void)state;
	qn_arena_init(&arena, &ctx);
	strcpy(root, "/tmp/quern-archive-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	qn_arena_release(&arena);
	qn_path_remove(root);
	return 0;
}

static const char *in_root(const char *name) { return qn_arena_printf(&arena, "%s/%s", root, name); }

static size_t files_in_root(void)
{
	qn_folder_file *files;
	size_t n;
	assert_int_equal(qn_folder_list(&ctx, &arena, root, &files, &n), QUERN_OK);
	return n;
}

static bool exists(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0;
}

/* --- writing and reading ------------------------------------------------------------------------------------- */
typedef struct seen {
	qn_text names;
	uint64_t bytes, sum;
} seen;

static qn_status see(void *user, const char *name, const void *data, size_t n)
{
	seen *s = user;
	qn_text_add(&s->names, "%s;", name);
	s->bytes += n;
	for (size_t i = 0; i < n; i++)
		s->sum = s->sum * 31 + ((const uint8_t *)data)[i];
	return QUERN_OK;
}

static const int64_t big[2] = {700, 1001};

static qn_archive *fill(qn_arena *a, const char *path)
{
	qn_archive *ar;
	assert_int_equal(qn_archive_create(&ctx, a, path, &ar), QUERN_OK);
	qn_tensor *t = qn_tensor_new(&arena, QN_F32, 2, big);
	for (int64_t i = 0; i < big[0] * big[1]; i++)
		((float *)(uintptr_t)t->data)[i] = (float)(i * 2654435761u % 1000) * 1e-3f;
	assert_int_equal(qn_archive_add_tensor(ar, "encoder/layer.0/weight", t), QUERN_OK);
	char long_label[190];
	memset(long_label, 'x', sizeof long_label - 1);
	long_label[sizeof long_label - 1] = '\0';
	assert_int_equal(qn_archive_add_tensor(ar, long_label, qn_tensor_scalar_f32(&arena, 1)), QUERN_OK);
	assert_int_equal(qn_archive_add(ar, "graph.nnef", "version 1.0;\n", 13), QUERN_OK);
	return ar;
}

static void write_archive(const char *path)
{
	qn_arena a;
	qn_arena_init(&a, &ctx);
	qn_archive *ar = fill(&a, path);
	assert_int_equal(qn_archive_commit(ar), QUERN_OK);
	struct stat st;
	if (!stat(path, &st) && S_ISREG(st.st_mode))
		assert_int_equal(qn_archive_bytes(ar), st.st_size);
	qn_arena_release(&a);
}

static void test_kinds_read_alike(void **state)
{
	(void)state;
	const char *kinds[] = {"a.nnef.tar", "a.nnef.tgz", "a.tar.gz", "folder", "b.tar/"};
	seen first = {{0}, 0, 0};
	for (size_t i = 0; i < QN_LEN(kinds); i++) {
		const char *path = in_root(kinds[i]);
		write_archive(path);
		seen s = {.names = {.arena = &arena}};
		assert_int_equal(qn_archive_read(&ctx, path, see, &s), QUERN_OK);
		assert_int_equal(s.bytes, QN_DAT_HEADER * 2 + 4 + 13 + (uint64_t)(big[0] * big[1]) * 4);
		if (i == 0)
			first = s;
		else if (i < 3)
			assert_int_equal(s.sum, first.sum);
		assert_non_null(strstr(s.names.s, "encoder/layer.0/weight.dat;"));
		assert_non_null(strstr(s.names.s, "graph.nnef;"));
	}
	assert_int_equal(files_in_root(), 3 + 2 * 3); /* nothing temporary is left */
}

static char *slurp(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	char *data = qn_arena_alloc(&arena, 8 << 20);
	*n = fread(data, 1, 8 << 20, f);
	fclose(f);
	return data;
}

static void test_same_bytes(void **state)
{
	(void)state;
	size_t n1, n2;
	ctx.threads = 1;
	write_archive(in_root("1.nnef.tgz"));
	ctx.threads = 3;
	write_archive(in_root("2.nnef.tgz"));
	ctx.threads = 0;
	const char *a = slurp(in_root("1.nnef.tgz"), &n1), *b = slurp(in_root("2.nnef.tgz"), &n2);
	assert_int_equal(n1, n2);
	assert_memory_equal(a, b, n1);
}

static void test_abandoned(void **state)
{
	(void)state;
	const char *kinds[] = {"a.nnef.tar", "a.nnef.tgz", "folder"};
	for (size_t i = 0; i < QN_LEN(kinds); i++) {
		qn_arena a;
		qn_arena_init(&a, &ctx);
		fill(&a, in_root(kinds[i]));
		assert_false(exists(in_root(kinds[i])));
		qn_arena_release(&a);
		assert_int_equal(files_in_root(), 0);
		assert_false(exists(in_root(kinds[i])));
	}
}

static void test_replaces_only_archives(void **state)
{
	(void)state;
	const char *path = in_root("folder");
	qn_archive *ar;
	write_archive(path);
	write_archive(path); /* a former archive gives way */
	FILE *f = fopen(in_root("folder/notes.txt"), "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(qn_archive_create(&ctx, &arena, path, &ar), QUERN_ERR_IO);
	assert_non_null(strstr(ctx.message, "notes.txt"));
	assert_true(exists(in_root("folder/notes.txt")));
	unlink(in_root("folder/notes.txt"));
	assert_int_equal(symlink("/tmp", in_root("folder/link.dat")), 0);
	assert_int_equal(qn_archive_create(&ctx, &arena, path, &ar), QUERN_ERR_FORMAT);
	assert_int_equal(qn_archive_create(&ctx, &arena, in_root("none/a.tar"), &ar), QUERN_ERR_IO);
	assert_int_equal(mkdir(in_root("d.tar"), 0777), 0);
	assert_int_equal(qn_archive_create(&ctx, &arena, in_root("d.tar"), &ar), QUERN_ERR_IO);
}

static void test_member_names(void **state)
{
	(void)state;
	qn_archive *ar;
	assert_int_equal(qn_archive_create(&ctx, &arena, in_root("a.tar"), &ar), QUERN_OK);
	const char *bad[] = {"", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a\\b", "a\nb"};
	for (size_t i = 0; i < QN_LEN(bad); i++)
		assert_int_not_equal(qn_archive_add(ar, bad[i], "", 0), QUERN_OK);
	assert_int_equal(qn_archive_add(ar, "a..b/.c", "", 0), QUERN_OK);
	assert_int_not_equal(qn_archive_add(ar, "A..b/.C", "", 0), QUERN_OK); /* one file where case is folded */
}

/* --- hostile archives ------------------------------------------------------------------------------------------ */
static const char *hostile(const char *name, int type, const char *link, const char *data)
{
	const char *path = in_root("hostile.tar");
	struct archive *a = archive_write_new();
	archive_write_set_format_ustar(a);
	assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, (unsigned)type);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)strlen(data));
	if (link && type == AE_IFLNK)
		archive_entry_set_symlink(e, link);
	else if (link)
		archive_entry_set_hardlink(e, link);
	archive_write_header(a, e);
	archive_write_data(a, data, strlen(data));
	archive_entry_free(e);
	archive_write_free(a);
	return path;
}

static void test_hostile_members(void **state)
{
	(void)state;
	seen s = {.names = {.arena = &arena}};
	const struct {
		const char *name;
		int type;
		const char *link;
	} cases[] = {{"/etc/x.dat", AE_IFREG, NULL}, {"../x.dat", AE_IFREG, NULL}, {"a/../../x.dat", AE_IFREG, NULL},
		{"x.dat", AE_IFLNK, "/etc/passwd"}, {"x.dat", AE_IFREG, "y.dat"}, {"x.dat", AE_IFIFO, NULL}};
	for (size_t i = 0; i < QN_LEN(cases); i++) {
		const char *path = hostile(cases[i].name, cases[i].type, cases[i].link, "");
		assert_int_equal(qn_archive_read(&ctx, path, see, &s), QUERN_ERR_FORMAT);
		assert_non_null(strstr(ctx.message, "x.dat"));
	}
	assert_int_equal(qn_archive_read(&ctx, hostile("./x.dat", AE_IFREG, NULL, "abc"), see, &s), QUERN_OK);
	assert_int_equal(s.bytes, 3);
}

/* Cut at every place of a small archive: an error or, where only the end mark is missing, the whole content; never a crash. */
static void test_truncated(void **state)
{
	(void)state;
	const char *kinds[] = {"t.nnef.tar", "t.nnef.tgz"};
	for (size_t k = 0; k < QN_LEN(kinds); k++) {
		qn_archive *ar;
		size_t n;
		int good = 0;
		assert_int_equal(qn_archive_create(&ctx, &arena, in_root(kinds[k]), &ar), QUERN_OK);
		assert_int_equal(qn_archive_add_tensor(ar, "w", qn_tensor_i64s(&arena, (const int64_t[]){1, 2, 3}, 3)), QUERN_OK);
		assert_int_equal(qn_archive_commit(ar), QUERN_OK);
		const char *data = slurp(in_root(kinds[k]), &n);
		for (size_t cut = 0; cut < n; cut += k ? 1 : 7) {
			FILE *f = fopen(in_root("cut"), "wb");
			assert_non_null(f);
			assert_int_equal(fwrite(data, 1, cut, f), cut);
			fclose(f);
			seen s = {.names = {.arena = &arena}};
			if (qn_archive_read(&ctx, in_root("cut"), see, &s) == QUERN_OK) {
				assert_true(s.bytes == QN_DAT_HEADER + 24 || cut == 0);
				good++;
			}
		}
		assert_true(good < 200);
	}
	seen s = {.names = {.arena = &arena}};
	assert_int_equal(qn_archive_read(&ctx, in_root("absent"), see, &s), QUERN_ERR_IO);
	assert_int_equal(qn_archive_read(&ctx, in_root("t.nnef.tar/x"), see, &s), QUERN_ERR_IO);
}

/* A header may claim more than there is; memory follows what arrives. */
static void test_oversize_claim(void **state)
{
	(void)state;
	size_t n;
	const char *path = hostile("x.dat", AE_IFREG, NULL, "abc");
	char *data = slurp(path, &n);
	memcpy(data + 124, "77777777777", 11); /* 8 GiB - 1 in octal */
	memset(data + 148, ' ', 8);
	unsigned sum = 0;
	for (int i = 0; i < 512; i++)
		sum += (uint8_t)data[i];
	snprintf(data + 148, 8, "%06o", sum);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	fwrite(data, 1, n, f);
	fclose(f);
	seen s = {.names = {.arena = &arena}};
	assert_int_equal(qn_archive_read(&ctx, path, see, &s), QUERN_ERR_FORMAT);
	assert_non_null(strstr(ctx.message, "x.dat"));
}

static size_t allocations_left;
static void *limited(void *user, void *ptr, size_t old_size, size_t new_size)
{
	(void)user;
	(void)old_size;
	if (!new_size) {
		free(ptr);
		return NULL;
	}
	return allocations_left && allocations_left-- ? realloc(ptr, new_size) : NULL;
}

static qn_status write_and_read(qn_ctx *c, qn_arena *a, const char *path)
{
	QN_ENTER(c, saved, buf);
	qn_archive *ar;
	QN_TRY(qn_archive_create(c, a, path, &ar));
	QN_TRY(qn_archive_add(ar, "graph.nnef", "version 1.0;\n", 13));
	QN_TRY(qn_archive_commit(ar));
	seen s = {.names = {.arena = a}};
	qn_status st = qn_archive_read(c, path, see, &s);
	QN_LEAVE(c, saved);
	return st;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	qn_status st = QUERN_ERR_MEMORY;
	for (size_t n = 0; st != QUERN_OK; n++) {
		qn_ctx c = {.alloc = limited, .threads = 1};
		qn_arena a;
		qn_arena_init(&a, &c);
		allocations_left = n;
		st = write_and_read(&c, &a, in_root("m.nnef.tgz"));
		allocations_left = SIZE_MAX;
		qn_arena_release(&a);
		assert_true(st == QUERN_OK || st == QUERN_ERR_MEMORY);
		assert_true(n < 1000);
	}
	assert_int_equal(files_in_root(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kinds_read_alike, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_abandoned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaces_only_archives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_member_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_members, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_oversize_claim, setup, teardown),
		cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
