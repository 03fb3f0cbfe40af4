"""Milliseconds a sample of quern's float executor and of onnxruntime, in turn on the same cores: bench_forward.py PROGRAM MODEL.onnx SAMPLES [THREADS [ROUNDS]]

PROGRAM is bench_forward (cmake --build BUILD --target bench_forward). Read the ratio; on a busy machine the least of several rounds says most.
"""
import glob, os, subprocess, sys, time

import numpy as np
import onnxruntime

program, model, folder = sys.argv[1:4]
threads, rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 2, int(sys.argv[5]) if len(sys.argv) > 5 else 5
environment = {"GOMP_SPINCOUNT": "1000", **os.environ}  # as the command does
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
files = sorted(f for f in glob.glob(os.path.join(folder, "*.npz")) if not os.path.basename(f).startswith("expected_"))
feeds = [{k: np.asarray(v) for k, v in np.load(f).items()} for f in files]


def theirs():
    least = []
    for x in feeds:
        session.run(None, x)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            session.run(None, x)
            times.append(time.perf_counter() - start)
        least.append(min(times))
    return 1e3 * sum(least) / len(least)


ours, other = [], []
for _ in range(rounds):
    ours.append(float(subprocess.check_output([program, model, str(threads), "5", folder], env=environment).split()[0]))
    other.append(theirs())
print(f"quern {min(ours):.2f} ms, onnxruntime {min(other):.2f} ms, ratio {min(ours) / min(other):.2f}")
