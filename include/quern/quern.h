/* quern.h - grind an ONNX transformer down to a quantized NNEF archive for the tract engine.
 *
 * Conventions of the whole header. Handles are opaque; what a function hands out stays the library's and lives as long
 * as the handle it came from, unless it says otherwise. A call that can fail returns a quern_status; the text that says what
 * failed, where and what to try is quern_message(). The library never prints and never exits. One context is used by one thread
 * at a time; several contexts may work in several threads. Paths and names are UTF-8. */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define QUERN_API __attribute__((visibility("default")))
#else
#define QUERN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_VERSION "0.1.0"

typedef enum quern_status {
	QUERN_OK = 0,
	QUERN_ERR_IO,          /* the system refused a file */
	QUERN_ERR_FORMAT,      /* a file is not what it claims to be */
	QUERN_ERR_UNSUPPORTED, /* valid, but nothing here can express it */
	QUERN_ERR_SHAPE,       /* shapes or types do not fit each other */
	QUERN_ERR_CONFIG,      /* an option, name or value of the caller's is wrong */
	QUERN_ERR_NUMERIC,     /* NaN, infinity or an overflow where a number is needed */
	QUERN_ERR_MEMORY,      /* the heap is exhausted */
	QUERN_ERR_CANCELLED,   /* the progress callback asked to stop */
	QUERN_ERR_INTERNAL     /* a fault of ours */
} quern_status;

typedef enum quern_log_level { QUERN_LOG_DEBUG, QUERN_LOG_INFO, QUERN_LOG_WARN } quern_log_level;

/* (user, ptr, old size, new size): new size 0 frees and returns NULL; NULL for a larger size means exhausted. */
typedef void *(*quern_alloc_fn)(void *user, void *ptr, size_t old_size, size_t new_size);
typedef void (*quern_log_fn)(void *user, quern_log_level level, const char *text);
/* `done` of `total` steps of a stage; return false to stop the work with QUERN_ERR_CANCELLED. */
typedef bool (*quern_progress_fn)(void *user, const char *stage, size_t done, size_t total);

#include <quern/config.h>
#include <quern/model.h>
#include <quern/tune.h>
#include <quern/qtensor.h>
#include <quern/archive.h>

#ifdef __cplusplus
}
#endif
#endif
