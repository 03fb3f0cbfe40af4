/* samples.h - inputs to calibrate or evaluate on: .npz files (one sample each), folders of them, or ONNX test_data_set folders. */
#ifndef QN_SAMPLES_H
#define QN_SAMPLES_H

#include "graph/graph.h"

typedef struct qn_samples qn_samples;

/* Finds the samples under `path`: a .npz; a folder with .npz files (in name order) or with test_data_set_* folders; or one test_data_set
 * folder. Files named expected_* are no samples. Nothing is read yet but names. Lives in `a`. */
qn_status qn_samples_open(qn_graph *g, const char *path, qn_arena *a, qn_samples **out);
/* No files: the tensors of a host program; samples are added by qn_samples_add, which copies them into `a`. */
qn_samples *qn_samples_memory(qn_graph *g, qn_arena *a);
qn_status qn_samples_add(qn_samples *s, const qn_tensor *const *inputs);
size_t qn_samples_count(const qn_samples *s);
const char *qn_samples_name(const qn_samples *s, size_t i); /* for messages */
/* Reads sample i into `a`: inputs[k] for g->inputs[k], types converted where that is lossless (int32 and int64 are accepted alike). A state
 * input (past keys: it goes into a Concat and has an axis that no given input has) that the sample does not give starts empty, and one log
 * line says so. A missing or extra input, a wrong type or rank, or no element in any input but states, is an error that names the sample and the input. */
qn_status qn_samples_read(qn_samples *s, size_t i, qn_arena *a, const qn_tensor **inputs);
/* Reads every sample once and puts them in an order that follows from what they hold, so that what is gathered over them does not depend on
 * the names of files. */
qn_status qn_samples_sort(qn_samples *s);
/* How many samples of other content come before sample i, after qn_samples_sort. */
size_t qn_samples_rank(const qn_samples *s, size_t i);

#endif
