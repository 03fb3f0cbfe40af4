"""Tuned widths against eleven made by hand, at the same size, in the engine: MiniLM's sentence vectors, all weights rounded by gptq on the 24 samples.

usage: bench_tune.py [--others FOLDER] [--act | BITS ...]      (default 5.0 5.5 7.0)      QUERN: the command

By hand means by role and by block, as people do it: whole groups of layers get 8 bits in an order, as long as the size allows; the group that no longer fits is taken layer by layer.
FOLDER has more sentences (.npz), which had no part in any choice here: each allocation is scored on those of them that are neither among the samples nor among the sixteen
sentences, against onnxruntime's float outputs. The last column is by how much it is better there than the tuned one, sentence by sentence, in mean and standard error.

--act: int8 weights, and activations of 8 bits by role against as many multiply-adds of 8-bit integers where `quern tune --act` puts them.
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


BY_ROLE = {"query, key, value": ("query", "key", "value"), "all of attention": ("query", "key", "value", "output"), "feed-forward": ("ffn",)}


def activations(folder, quern, score):
    """Rows of activations by role, each with the tuned ones of as many products."""
    allocation, found = folder / "v.json", folder / "curve.json"

    def tune(*flags):
        quern("tune", MODEL, "-o", allocation, "--bits", "8", "--act", "--max-bits", "9", "--calib", SAMPLES, "--state", folder / "acts", "--curve", found, *flags)
        return json.loads(found.read_text())

    r = tune()
    units = [u for u in r["layers"] if "products" in u]
    total, of_weights = sum(u["products"] for u in units), r["tuning"]["chosen"]["error"] - r["activations"]["error"]
    print("\n| 8-bit activations | multiply-adds in 8-bit integers | 16 sentences | others | better than tuned by |\n| --- | --- | --- | --- | --- |", flush=True)
    for what, roles in BY_ROLE.items():
        narrow = sum(u["products"] for u in units if u["role"] in roles)
        error = [e for products, e in r["activations"]["frontier"] if products <= 2 * total - narrow][-1]
        tuned = tune("--act-share", error / of_weights * (1 + 1e-9))["activations"]["narrow"]
        reference = score("--load-bits", allocation)
        widths = ",".join(f"{role}={8 if role in roles else 16}" for role in ("query", "key", "value", "output", "ffn"))
        by_hand = score("--bits", "8", "--act-bits", widths)
        gain = by_hand[1] - reference[1]
        print(f"| tuned | {tuned / total:.0%} | {reference[0]:.5f} | {reference[1].mean():.5f} | |")
        print(f"| {what} | {narrow / total:.0%} | {by_hand[0]:.5f} | {by_hand[1].mean():.5f} | {1e5 * gain.mean():+.1f} ± {1e5 * gain.std() / len(gain) ** 0.5:.1f} e-5 |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--act", action="store_true")
    parser.add_argument("bits", nargs="*", type=float, default=[5.0, 5.5, 7.0])
    parser.add_argument("--others", type=pathlib.Path, default=SHARED / "minilm" / "calib256")
    args = parser.parse_args()
    engine, others = Engine(), other_sentences(args.others)
    quern = lambda *args: subprocess.run([quern_path(), *map(str, args), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        allocation, archive = folder / "a.json", folder / "a.nnef.tgz"

        def score(*flags):
            quern("compile", MODEL, "-o", archive, "--calib", SAMPLES, "--rounding", "gptq", *flags)
            return pooled(engine, archive), np.array([cosine(engine.run(archive, feeds)[0].mean(1), exact) for feeds, exact in others])

        if args.act:
            activations(folder, quern, score)
        for bits in [] if args.act else args.bits:
            allocation.unlink(missing_ok=True)
            quern("tune", MODEL, "-o", allocation, "--calib", SAMPLES, "--max-bits", bits, "--state", folder / "state")
            tuned = json.loads(allocation.read_text())
            weights = sum(l["shape"][0] * l["shape"][1] for l in tuned["layers"] if l["role"] != "embedding")
            print(f"\n| {bits} bits a weight | layers of 8 bits | 16 sentences | {len(others)} others | better than tuned by |\n| --- | --- | --- | --- | --- |", flush=True)
            rows, reference = {"tuned": tuned, **{hand: by_hand(tuned, order, int(bits * weights / 8)) for hand, order in HANDS.items()}}, None
            for what, made in rows.items():
                wide = sum(l["weightBits"] == 8 for l in made["layers"])
                allocation.write_text(json.dumps(made))
                few, many = score("--load-bits", allocation)
                reference = many if reference is None else reference
                gain = many - reference
                print(f"| {what} | {wide} | {few:.5f} | {many.mean():.5f} | {1e5 * gain.mean():+.1f} ± {1e5 * gain.std() / len(others) ** 0.5:.1f} e-5 |", flush=True)
    engine.close()


if __name__ == "__main__":
    main()
