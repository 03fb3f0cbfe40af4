"""--equalize: what it folds leaves the float model as it is, in the engine; an allocation brings the same bytes back.

The embedded model's norms are also written with channels of very different sizes, exactly: what that costs its 4-bit weights comes back.

Factors are found for 4-bit weights and then compiled with 32-bit ones: whatever differs from the plain float archive is the factors' doing. The exports of
../shared/zoo where they are here, the embedded model, MiniLM where its weights are.
"""
import json, pathlib, tempfile
from common import FLOAT, MODELS, SANITIZED, SHARED, Broken, Engine, Tally, compile_model, need, ort_session, quern, rel_l2

need("tract", "numpy", "onnx", "onnxruntime")
import numpy as np
from rounding import divergence, log_likelihoods
from spread import spread_channels

TOLERANCE = 1e-5
LLAMA, MINILM = MODELS / "bytellama", MODELS / "minilm"


def feeds_of(path):
    with np.load(path) as z:
        return dict(z)


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def equalized(model, folder, *flags):
    """Compiles with --equalize; the allocation, and what --json says of each tensor."""
    done = compile_model(model, folder / "q4", "--equalize", "--save-bits", folder / "bits.json", "--json", *flags)
    return json.loads((folder / "bits.json").read_text()), json.loads(done.stdout).get("equalization", [])


def stays_float(engine, model, feeds, folder, *flags):
    allocation, said = equalized(model, folder, *flags)
    folded = [e for e in said if e["folded"]]
    with_factors = sum("equalized" in l for l in allocation["layers"])
    for layer in allocation["layers"]:
        layer["weightBits"] = 32
        layer.pop("parts", None)
    (folder / "wide.json").write_text(json.dumps(allocation))
    compile_model(model, folder / "float.nnef.tar", *FLOAT)
    compile_model(model, folder / "wide.nnef.tar", "--load-bits", folder / "wide.json", "--rounding", "mse")
    if with_factors != sum(e["layers"] for e in folded):
        raise Broken(f"{with_factors} layers have factors in the allocation, {sum(e['layers'] for e in folded)} by --json")
    want, got = (engine.run(folder / f"{kind}.nnef.tar", feeds) for kind in ("float", "wide"))
    error = max(rel_l2(a, b) for a, b in zip(got, want))
    return error <= TOLERANCE, f"{len(folded)} of {len(said)} tensors folded, relative L2 {error:.1e}"


def asked_for_float(model, folder):
    """Without a narrow weight there is nothing to gain, and nothing is touched."""
    compile_model(model, folder / "a", *FLOAT)
    compile_model(model, folder / "b", *FLOAT, "--equalize")
    return files(folder / "a") == files(folder / "b"), "--bits 32 gives the bytes that it gives without --equalize"


def comes_back(model, folder, *flags):
    """The factors are in the file, so neither samples nor the option are needed for the same bytes."""
    compile_model(model, folder / "first", "--equalize", "--save-bits", folder / "bits.json", *flags)
    rounding_by_samples = [f for f in ("importance", "gptq") if f in flags]
    again = flags[flags.index("--calib") :] if rounding_by_samples and "--calib" in flags else []
    compile_model(model, folder / "second", "--load-bits", folder / "bits.json", "--save-bits", folder / "again.json", *again)
    same = files(folder / "first") == files(folder / "second")
    one, two = (json.loads((folder / n).read_text())["layers"] for n in ("bits.json", "again.json"))
    kept = [l.get("equalized") for l in one] == [l.get("equalized") for l in two] and any("equalized" in l for l in one)
    return same and kept, f"{sum('equalized' in l for l in one)} layers with factors"


def bad_factors(folder):
    """Factors for one of the layers that read a tensor are no factors of the tensor."""
    allocation, _ = equalized(LLAMA / "model.onnx", folder, "--calib", LLAMA / "calib" / "sample_00.npz")
    next(l for l in allocation["layers"] if isinstance(l.get("equalized"), str)).pop("equalized")
    (folder / "bad.json").write_text(json.dumps(allocation))
    done = quern("compile", LLAMA / "model.onnx", "-o", folder / "bad", "--load-bits", folder / "bad.json")
    return done.returncode == 1 and "cannot be folded" in done.stderr, done.stderr.strip()[-200:]


def evaluated(folder):
    """Layers whose results are divided are compared undivided: int8 stays near float."""
    sample = LLAMA / "calib" / "sample_00.npz"
    done = quern("eval", LLAMA / "model.onnx", "--equalize", "--bits", "8", "--eval", sample, "--report", folder / "r.json", "--json")
    if done.returncode:
        raise Broken(done.stderr.strip()[-300:])
    report = json.loads((folder / "r.json").read_text())
    folded = sum(e["folded"] for e in report["equalization"])
    worst = min(l["sqnrDb"] for l in report["layers"] if l["role"] != "embedding")
    return folded > 0 and worst > 20, f"{folded} tensors folded, the noisiest layer has {worst:.1f} dB"


def comes_back_from_spread(engine, folder):
    model, got = folder / "spread.onnx", {}
    changed = spread_channels(LLAMA / "model.onnx", model)
    session = ort_session(LLAMA / "model.onnx")
    exact = log_likelihoods(lambda feeds: session.run(None, feeds)[0])
    for kind, flags in (("plain", []), ("equalized", ["--equalize"])):
        compile_model(model, folder / f"{kind}.nnef.tar", "--rounding", "mse", "--calib", LLAMA / "calib", *flags)
        got[kind] = divergence(exact, log_likelihoods(lambda feeds: engine.run(folder / f"{kind}.nnef.tar", feeds)[0]))
    return changed == 8 and got["equalized"] < 0.6 * got["plain"], f"{changed} norms, {got['plain']:.5f} bits a byte from float, equalized {got['equalized']:.5f}"


def main():
    tally, engine = Tally(), Engine()
    calib = ["--calib", LLAMA / "calib" / "sample_00.npz"]
    cases = [(p.name, p / "model.onnx", feeds_of(p / "inputs.npz"), []) for p in sorted((SHARED / "zoo").glob("*"))]
    text = feeds_of(LLAMA / "calib" / "sample_01.npz")
    cases += [("bytellama", LLAMA / "model.onnx", text, []), ("bytellama with samples", LLAMA / "model.onnx", text, calib)]
    if (MINILM / "model.safetensors").exists() and not SANITIZED:
        cases.append(("minilm", MINILM / "minilm.onnx", feeds_of(MINILM / "eval" / "sample_00.npz"), ["--calib", MINILM / "calib" / "sample_00.npz"]))
    for name, model, feeds, flags in cases:
        with tempfile.TemporaryDirectory() as folder:
            tally.attempt(f"{name} float", lambda: stays_float(engine, model, feeds, pathlib.Path(folder), *flags))
            tally.attempt(f"{name} 32 bits", lambda: asked_for_float(model, pathlib.Path(folder)))
    again = [("mse, samples", calib), ("mse", []), ("signed", ["--rounding", "signed"]), ("importance", ["--rounding", "importance", *calib]),
             ("8 bits balanced", ["--bits", "8", "--act-bits", "8", *calib]), ("8 bits, method 3", ["--bits", "8", "--act-bits", "8", "--method", "3", *calib])]
    if not SANITIZED:
        again.append(("gptq", ["--rounding", "gptq", *calib]))
    for name, flags in again:
        with tempfile.TemporaryDirectory() as folder:
            tally.attempt(f"allocation, {name}", lambda: comes_back(LLAMA / "model.onnx", pathlib.Path(folder), *flags))
    with tempfile.TemporaryDirectory() as folder:
        tally.attempt("bad factors", lambda: bad_factors(pathlib.Path(folder)))
        tally.attempt("eval", lambda: evaluated(pathlib.Path(folder)))
        if not SANITIZED:
            tally.attempt("spread channels", lambda: comes_back_from_spread(engine, pathlib.Path(folder)))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
