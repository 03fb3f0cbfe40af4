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
rows = []
for _ in range(rounds):
    first, second = (float(x) for x in subprocess.check_output([program, model, str(threads), folder], env=peer.environment).split())
    other = theirs()
    rows.append((first / other, second / other))
    print(f"calibrate {first:.2f} ms, balanced ranges {second:.2f} ms, onnxruntime {other:.2f} ms: {rows[-1][0]:.2f} and {rows[-1][1]:.2f}", flush=True)
print("median ratios: calibrate %.2f, balanced ranges %.2f" % tuple(statistics.median(x) for x in zip(*rows)))
