"""Archive sizes of one model and the engine's times, all forms side by side in one run: a markdown table.

usage: bench_engine.py [--model MODEL.onnx] [--calib SAMPLES] [--rounds N] [--lengths 16,128]      the command under test is $QUERN

The model takes int64 inputs of one shape [batch, length] (token ids, masks): MiniLM by default. All archives are loaded first; then each round runs every form once, in
turn, so that what else the machine does meets all of them alike. A time is the processor's (the engine computes on one thread), the least of the rounds; read the
ratios to float.
"""
import argparse, json, os, pathlib, sys, tempfile, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "engine"))
from common import FLOAT, MODELS, compile_model, need

need("tract", "numpy")
import numpy as np

MIXED = {"bit": {"mixedPrecisionApply": True}}
FORMS = [
    ("float", FLOAT),
    ("f16", ["--bits", "16"]),
    ("Q4_0 (the default)", []),
    ("W4A8: Q4_0, 8-bit activations", ["--act-bits", "8"]),
    ("W8: i8, float activations", ["--bits", "8"]),
    ("W8A8", ["--bits", "8", "--act-bits", "8"]),
    ("W8A8, dynamic", ["--bits", "8", "--act-bits", "8", "--dynamic-activations"]),
    ("W8A16", ["--bits", "8", "--act-bits", "16"]),
    ("mixed precision", ["--config", "MIXED"]),
]


def compile_form(model, archive, flags, calib, folder):
    """Static activations need samples."""
    (folder / "mixed.json").write_text(json.dumps(MIXED))
    flags = [folder / "mixed.json" if f == "MIXED" else f for f in flags]
    static = "--dynamic-activations" not in flags and ("--act-bits" in flags or "--config" in flags)
    compile_model(model, archive, *flags, *(["--calib", calib] if static else []))


def load(archive):
    import tract

    return tract.nnef().with_tract_extra().with_tract_transformers().load(str(archive)).into_runnable()


def measure(runnables, ports, length, rounds):
    ids = np.random.default_rng(1).integers(100, 2000, (1, length))
    feeds = [ids if "ids" in name and "type" not in name else np.full((1, length), int("mask" in name)) for name in ports]
    best = [float("inf")] * len(runnables)
    for _ in range(rounds):
        for i, runnable in enumerate(runnables):
            start = time.process_time()
            runnable.run(feeds)
            best[i] = min(best[i], time.process_time() - start)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=MODELS / "minilm" / "minilm.onnx")
    parser.add_argument("--calib", default=MODELS / "minilm" / "calib")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--lengths", default="16,128")
    args = parser.parse_args()
    lengths = [int(n) for n in args.lengths.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder, runnables, sizes = pathlib.Path(name), [], []
        for i, (_, flags) in enumerate(FORMS):
            archive = folder / f"{i}.nnef.tgz"
            compile_form(args.model, archive, flags, args.calib, folder)
            sizes.append(os.path.getsize(archive))
            runnables.append(load(archive))
        import tract

        model = tract.nnef().with_tract_extra().with_tract_transformers().load(str(folder / "0.nnef.tgz"))
        ports = [model.input_name(i) for i in range(model.input_count())]
        times = [measure(runnables, ports, n, args.rounds) for n in lengths]
    print("| form | archive, MB | of float | " + " | ".join(f"{n} tokens, ms | times float" for n in lengths) + " |")
    print("| --- |" + " ---: |" * (2 + 2 * len(lengths)))
    for i, (form, _) in enumerate(FORMS):
        cells = [f"{sizes[i] / 1e6:.1f}", f"{sizes[i] / sizes[0]:.2f}"]
        for t in times:
            cells += [f"{t[i] * 1e3:.1f}", f"{t[i] / t[0]:.2f}"]
        print(f"| {form} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
