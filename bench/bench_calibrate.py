"""Milliseconds a sample of quern's calibration and of onnxruntime's float run, in turn on the same cores:
bench_calibrate.py PROGRAM MODEL.onnx SAMPLES [THREADS [ROUNDS]]

PROGRAM is bench_calibrate (cmake --build BUILD --target bench_calibrate). Both read their samples from files within the time. Read the ratio of
each round; on a busy machine the median says most.
"""
import statistics, subprocess, sys, time

import peer

program, model, folder = sys.argv[1:4]
threads, rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 2, int(sys.argv[5]) if len(sys.argv) > 5 else 5
session = peer.session(model, threads)
files = peer.sample_files(folder)


def theirs():
    start = time.perf_counter()
    for f in files:
        session.run(None, peer.read(f))
    return 1e3 * (time.perf_counter() - start) / len(files)


theirs()
ratios = []
for _ in range(rounds):
    ours, balance = (float(x) for x in subprocess.check_output([program, model, str(threads), folder], env=peer.environment).split())
    other = theirs()
    ratios.append(ours / other)
    print(f"calibrate {ours:.2f} ms a sample, onnxruntime {other:.2f} ms: {ratios[-1]:.2f}; factors {balance:.0f} ms, once", flush=True)
print(f"median ratio: {statistics.median(ratios):.2f}")
