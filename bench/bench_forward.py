"""Milliseconds a sample of quern's float executor and of onnxruntime, in turn on the same cores: bench_forward.py PROGRAM MODEL.onnx SAMPLES [THREADS [ROUNDS]]

PROGRAM is bench_forward (cmake --build BUILD --target bench_forward). Read the ratio; on a busy machine the least of several rounds says most.
"""
import subprocess, sys, time

import peer

program, model, folder = sys.argv[1:4]
threads, rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 2, int(sys.argv[5]) if len(sys.argv) > 5 else 5
session = peer.session(model, threads)
feeds = [peer.read(f) for f in peer.sample_files(folder)]


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
    ours.append(float(subprocess.check_output([program, model, str(threads), "5", folder], env=peer.environment).split()[0]))
    other.append(theirs())
print(f"quern {min(ours):.2f} ms, onnxruntime {min(other):.2f} ms, ratio {min(ours) / min(other):.2f}")
