"""Tuned widths of the embedded byte LLaMA, rounded by gptq on its 32 samples, in the engine: bits a byte of 16,384 bytes of other text, and divergence from float.

usage: bench_tune_bytellama.py [--hands] [BITS ...]      (default 4.5 5 5.5 6 7)      QUERN: the command      --hands: against the hand-made widths of bench_tune.py and two more
"""
import argparse, json, pathlib, subprocess, tempfile

import bench_tune
from bytellama import MODEL, MODELS
from bytellama_widths import batches, log_softmax, measure
from common import Engine, ort_session, quern_path

HEAD_FIRST = {
    "head, then values, outputs": bench_tune.by_kinds("head", "value", "output", "query", "key", "intermediate", "ffn output"),
    "head, then last blocks": lambda l: (-1, 0) if l["role"] == "head" else bench_tune.HANDS["last blocks"](l),
}
SAMPLES = MODELS / "bytellama" / "calib"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hands", action="store_true")
    parser.add_argument("bits", nargs="*", type=float, default=[4.5, 5.0, 5.5, 6.0, 7.0])
    args = parser.parse_args()
    engine, session = Engine(), ort_session(MODEL)
    reference = [log_softmax(session.run(None, dict(zip(("input_ids", "attention_mask"), feeds)))[0]) for feeds, _ in batches()]
    quern = lambda *flags: subprocess.run([quern_path(), *map(str, flags), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    print("| bits a weight | widths | bits a byte | divergence | archive, MB |\n| --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        allocation, archive = pathlib.Path(name) / "a.json", pathlib.Path(name) / "a.nnef.tgz"
        for bits in args.bits:
            allocation.unlink(missing_ok=True)
            quern("tune", MODEL, "-o", allocation, "--calib", SAMPLES, "--max-bits", bits, "--state", pathlib.Path(name) / "state")
            tuned = json.loads(allocation.read_text())
            weights = sum(l["shape"][0] * l["shape"][1] for l in tuned["layers"] if l["role"] != "embedding")
            hands = {**bench_tune.HANDS, **HEAD_FIRST} if args.hands and bits > 4.5 else {}
            for what, made in {"tuned": tuned, **{hand: bench_tune.by_hand(tuned, order, int(bits * weights / 8)) for hand, order in hands.items()}}.items():
                allocation.write_text(json.dumps(made))
                quern("compile", MODEL, "-o", archive, "--calib", SAMPLES, "--rounding", "gptq", "--load-bits", allocation)
                kl, loss = measure(engine, archive, reference)
                print(f"| {bits} | {what} | {loss:.5f} | {kl:.6f} | {archive.stat().st_size / 1e6:.2f} |", flush=True)
    engine.close()


if __name__ == "__main__":
    main()
