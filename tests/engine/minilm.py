"""MiniLM (22 M parameters, dynamic batch and sequence) in the engine: mean pooled cosine with float on 16 sentences, archive size, time, memory.

Needs the weights: models/fetch_minilm. Time and memory are held only where QUERN_TIMING is set (a quiet machine, no sanitizer).
"""
import os, pathlib, subprocess, tempfile, time
from common import FLOAT, MODELS, Broken, Engine, Tally, cosine, need, quern, quern_path, rel_l2, skip

need("tract", "numpy")
import numpy as np

MODEL = MODELS / "minilm" / "minilm.onnx"
# name, flags, least mean pooled cosine, most megabytes
FORMS = [("float", FLOAT, 0.999999, 92), ("f16", ["--bits", "16"], 0.99999, 46), ("int8", ["--bits", "8"], 0.9994, 36), ("Q4_0", [], 0.967, 31),
         ("Q4_0 signed", ["--rounding", "signed"], 0.963, 31)]


def compile_and_measure(archive, flags):
    start = time.perf_counter()
    child = subprocess.Popen([quern_path(), "compile", str(MODEL), "-o", str(archive), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise Broken(message.strip()[-300:])
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def pooled(engine, archive):
    values = []
    for path in sorted((MODELS / "minilm" / "eval").glob("sample_*.npz")):
        with np.load(path) as x, np.load(path.with_name(path.name.replace("sample_", "expected_"))) as want:
            got = engine.run(archive, dict(x))[0]
            values.append(cosine(got.mean(1), want["last_hidden_state"].mean(1)))
    return float(np.mean(values))


def pooled_of_today(engine, archive, session):
    """The same on sentences of another kind than those to calibrate on."""
    values = []
    for path in sorted((MODELS / "minilm" / "modern").glob("sample_*.npz")):
        with np.load(path) as x:
            feeds = dict(x)
        values.append(cosine(engine.run(archive, feeds)[0].mean(1), session.run(["last_hidden_state"], feeds)[0].mean(1)))
    return float(np.mean(values))


def executed(folder):
    """Our own float execution against the outputs that are given."""
    worst = 0.0
    for path in sorted((MODELS / "minilm" / "eval").glob("sample_*.npz")):
        done = quern("run", MODEL, "--input", path, "-o", folder / "run.npz")
        if done.returncode:
            raise Broken(done.stderr.strip()[-300:])
        with np.load(folder / "run.npz") as got, np.load(path.with_name(path.name.replace("sample_", "expected_"))) as want:
            worst = max(worst, rel_l2(got["last_hidden_state"], want["last_hidden_state"]))
    return worst <= 1e-5, f"relative L2 {worst:.1e}"


def main():
    if not (MODELS / "minilm" / "model.safetensors").exists():
        skip("the weights are not here; models/fetch_minilm fetches them")
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as folder:
        tally.attempt("quern run", lambda: executed(pathlib.Path(folder)))
        for kind, flags, least, most in FORMS:
            archive = pathlib.Path(folder) / f"{kind}.nnef.tgz"

            def measure():
                seconds, peak = compile_and_measure(archive, flags)
                value, size = pooled(engine, archive), archive.stat().st_size / 1e6
                good = value >= least and size <= most
                if os.environ.get("QUERN_TIMING") and kind == "Q4_0":
                    good = good and seconds <= 1 and peak <= 200
                return good, f"cosine {value:.6f}, {size:.1f} MB, compiled in {seconds:.2f} s with {peak:.0f} MiB at most"

            tally.attempt(kind, measure)
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
