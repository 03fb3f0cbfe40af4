"""onnxruntime as the peer of the benchmarks, on as many threads and the same samples."""
import glob, os

import numpy as np
import onnxruntime

# Of quern's programs that are no command: threads wait, and free memory is kept, as the command does it (cli/libraries.c).
environment = {"GOMP_SPINCOUNT": "1000", "MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20), **os.environ}


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def sample_files(folder):
    return sorted(f for f in glob.glob(os.path.join(folder, "*.npz")) if not os.path.basename(f).startswith("expected_"))


def read(path):
    return {k: np.asarray(v) for k, v in np.load(path).items()}
