"""onnxruntime as the peer of the benchmarks, on as many threads and the same samples."""
import glob, os

import numpy as np
import onnxruntime

# Of quern's programs that are no command: threads wait as the command lets them.
environment = {"GOMP_SPINCOUNT": "1000", **os.environ}


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def sample_files(folder):
    return sorted(f for f in glob.glob(os.path.join(folder, "*.npz")) if not os.path.basename(f).startswith("expected_"))


def read(path):
    return {k: np.asarray(v) for k, v in np.load(path).items()}
