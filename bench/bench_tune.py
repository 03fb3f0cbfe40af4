"""Tuned widths against eleven made by hand, at the same size, in the engine: MiniLM's sentence vectors, all weights rounded by gptq on the 24 samples.

usage: bench_tune.py [--others FOLDER] [BITS ...]      (default 5.0 5.5 7.0)      QUERN: the command

By hand means by role and by block, as people do it: whole groups of layers get 8 bits in an order, as long as the size allows; the group that no longer fits is taken layer by layer.
FOLDER has more sentences (.npz), which had no part in any choice here: each allocation is scored on those of them that are neither among the samples nor among the sixteen
sentences, against onnxruntime's float outputs. The last column is by how much it is better there than the tuned one, sentence by sentence, in mean and standard error.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "engine"))
from common import MODELS, SHARED, Engine, cosine, ort_session, quern_path
from minilm import pooled

HERE = pathlib.Path(os.environ.get("QUERN_MINILM", MODELS / "minilm"))
MODEL, SAMPLES = HERE / "minilm.onnx", MODELS / "minilm" / "calib"
ROLES = ["value", "output", "query", "key", "intermediate", "ffn output"]


def kind(layer):
    if layer["role"] != "ffn":
        return layer["role"]
    return "intermediate" if layer["shape"][0] > layer["shape"][1] else "ffn output"  # [out, in]


def by_kinds(*kinds):
    return lambda l: (kinds.index(kind(l)), l["block"]) if kind(l) in kinds else None


def by_blocks(*blocks):
    return lambda l: (blocks.index(l["block"]), ROLES.index(kind(l))) if l["block"] in blocks else None


HANDS = {
    "first blocks": by_blocks(0, 1, 2, 3, 4, 5),
    "last blocks": by_blocks(5, 4, 3, 2, 1, 0),
    "first and last block": by_blocks(0, 5, 1, 4, 2, 3),
    "last block, then the first": by_blocks(5, 0, 4, 1, 3, 2),
    "middle blocks": by_blocks(2, 3, 1, 4, 0, 5),
    "values, then attention outputs": by_kinds("value", "output", "query", "key", "intermediate", "ffn output"),
    "values, then intermediates": by_kinds("value", "intermediate", "output", "key", "query", "ffn output"),
    "queries and keys first": by_kinds("query", "key", "value", "output", "intermediate", "ffn output"),
    "intermediates first": by_kinds("intermediate", "value", "output", "query", "key", "ffn output"),
    "FFN outputs first": by_kinds("ffn output", "value", "output", "query", "key", "intermediate"),
    "attention outputs first": by_kinds("output", "value", "key", "query", "intermediate", "ffn output"),
}


def bytes_of(layer, bits):
    n, k = layer["shape"]
    return n * k // 32 * 18 if bits == 4 else n * k + 4 * n


def by_hand(allocation, order, budget):
    """The allocation with 8 bits in this order for as long as they fit."""
    made = json.loads(json.dumps(allocation))
    layers = [l for l in made["layers"] if l["role"] != "embedding"]
    for l in layers:
        l["weightBits"] = 4
        l.pop("weightForm", None)
    left = budget - sum(bytes_of(l, 4) for l in layers)
    for l in sorted((l for l in layers if order(l) is not None), key=order):
        more = bytes_of(l, 8) - bytes_of(l, 4)
        if more <= left:
            l["weightBits"] = 8
            left -= more
    made.pop("tuning", None)
    return made


def other_sentences(folder):
    """Inputs and the float model's sentence vectors."""
    seen = set()
    for path in [*SAMPLES.glob("*.npz"), *(MODELS / "minilm" / "eval").glob("sample_*.npz")]:
        with np.load(path) as x:
            seen.add(x["input_ids"].tobytes())
    session, found = ort_session(MODEL), []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as x:
            feeds = dict(x)
        if feeds["input_ids"].tobytes() not in seen:
            found.append((feeds, session.run(None, feeds)[0].mean(1)))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bits", nargs="*", type=float, default=[5.0, 5.5, 7.0])
    parser.add_argument("--others", type=pathlib.Path, default=SHARED / "minilm" / "calib256")
    args = parser.parse_args()
    engine, others = Engine(), other_sentences(args.others)
    quern = lambda *args: subprocess.run([quern_path(), *map(str, args), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        allocation, archive = folder / "a.json", folder / "a.nnef.tgz"

        def score(made):
            allocation.write_text(json.dumps(made))
            quern("compile", MODEL, "-o", archive, "--load-bits", allocation, "--calib", SAMPLES, "--rounding", "gptq")
            return pooled(engine, archive), np.array([cosine(engine.run(archive, feeds)[0].mean(1), exact) for feeds, exact in others])

        for bits in args.bits:
            allocation.unlink(missing_ok=True)
            quern("tune", MODEL, "-o", allocation, "--calib", SAMPLES, "--max-bits", bits, "--state", folder / "state")
            tuned = json.loads(allocation.read_text())
            weights = sum(l["shape"][0] * l["shape"][1] for l in tuned["layers"] if l["role"] != "embedding")
            print(f"\n| {bits} bits a weight | layers of 8 bits | 16 sentences | {len(others)} others | better than tuned by |\n| --- | --- | --- | --- | --- |", flush=True)
            rows, reference = {"tuned": tuned, **{hand: by_hand(tuned, order, int(bits * weights / 8)) for hand, order in HANDS.items()}}, None
            for what, made in rows.items():
                wide = sum(l["weightBits"] == 8 for l in made["layers"])
                few, many = score(made)
                reference = many if reference is None else reference
                gain = many - reference
                print(f"| {what} | {wide} | {few:.5f} | {many.mean():.5f} | {1e5 * gain.mean():+.1f} ± {1e5 * gain.std() / len(others) ** 0.5:.1f} e-5 |", flush=True)
    engine.close()


if __name__ == "__main__":
    main()
