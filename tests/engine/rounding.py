"""Weights rounded by samples, in the engine: the embedded model's divergence from float, MiniLM's cosine (where its weights are), what the command says of it.

QUERN_TIMING, on a quiet machine, also holds MiniLM's time and memory. docs/rounding.md has the table that bench/ablation.py makes.
"""
import json, math, os, pathlib, tempfile
from common import MODELS, SANITIZED, Broken, Engine, Tally, compile_model, need, ort_session, quern
from minilm import compile_and_measure, pooled, pooled_of_today

need("tract", "onnxruntime", "numpy")
import numpy as np

LLAMA, MINILM = MODELS / "bytellama", MODELS / "minilm"
WINDOW, WINDOWS, BATCH = 128, 128, 16
# name, flags, most divergence in bits a byte
LLAMA_FORMS = [("importance", ["--rounding", "importance"], 0.0047), ("gptq", ["--rounding", "gptq"], 0.0014),
               ("int8 gptq", ["--bits", "8", "--rounding", "gptq"], 0.00004)]
# name, flags, least mean pooled cosine, and that of sentences of another kind than the samples
MINILM_FORMS = [("importance", ["--rounding", "importance"], 0.9755, 0.976), ("gptq", ["--rounding", "gptq"], 0.9945, 0.990),
                ("int8 gptq", ["--bits", "8", "--rounding", "gptq"], 0.9997, 0.9997)]
SECONDS, MEGABYTES = 12, 400


def log_likelihoods(run):
    text = np.frombuffer((LLAMA / "valid.txt").read_bytes(), np.uint8).astype(np.int64)[: WINDOW * WINDOWS].reshape(-1, WINDOW)
    parts = []
    for at in range(0, WINDOWS, BATCH):
        logits = run({"input_ids": text[at : at + BATCH], "attention_mask": np.ones((BATCH, WINDOW), np.int64)}).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        parts.append(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
    return np.concatenate(parts)


def divergence(exact, got):
    return float((np.exp(exact) * (exact - got)).sum(-1).mean() / math.log(2))


def same_bytes(folder):
    made, calib = [], LLAMA / "calib" / ("sample_00.npz" if SANITIZED else "")
    for threads in ("1", "3"):
        compile_model(LLAMA / "model.onnx", folder / threads, "--rounding", "gptq", "--calib", calib, "--threads", threads)
        made.append({p.relative_to(folder / threads): p.read_bytes() for p in sorted((folder / threads).rglob("*")) if p.is_file()})
    return made[0] == made[1], f"{len(made[0])} files are equal at 1 and 3 threads"


def says_what_it_did(folder):
    done = quern("compile", LLAMA / "model.onnx", "-o", folder / "said", "--rounding", "gptq", "--calib", LLAMA / "calib" / "sample_00.npz", "--json")
    if done.returncode:
        raise Broken(done.stderr.strip()[-300:])
    layers = [l for l in json.loads(done.stdout)["layers"] if l["form"] == "q4_0"]
    rounded = [l for l in layers if l.get("rounding") == "gptq"]
    noted = [l for l in layers if "roundingNote" in l]
    good = len(rounded) == len(layers) and noted and "about" in done.stderr and "plain targets" in done.stderr
    return good, f"{len(rounded)} of {len(layers)} layers rounded, {len(noted)} with a note"


def main():
    tally, engine = Tally(), Engine()
    session = ort_session(LLAMA / "model.onnx")
    exact = log_likelihoods(lambda feeds: session.run(None, feeds)[0])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tally.attempt("repeatable", lambda: same_bytes(folder))
        tally.attempt("notes", lambda: says_what_it_did(folder))
        for kind, flags, most in LLAMA_FORMS[:1] if SANITIZED else LLAMA_FORMS:

            def measure():
                archive = folder / f"{kind}.nnef.tgz"
                compile_model(LLAMA / "model.onnx", archive, *flags, "--calib", LLAMA / "calib")
                value = divergence(exact, log_likelihoods(lambda feeds: engine.run(archive, feeds)[0]))
                return value <= most, f"{value:.5f} bits a byte from float, at most {most}"

            tally.attempt(f"bytellama {kind}", measure)
        with_minilm = (MINILM / "model.safetensors").exists() and not SANITIZED
        float_minilm = ort_session(MINILM / "minilm.onnx") if with_minilm else None
        for kind, flags, least, least_of_today in MINILM_FORMS if with_minilm else []:

            def measure():
                archive = folder / f"minilm {kind}.nnef.tgz"
                seconds, peak = compile_and_measure(archive, [*flags, "--calib", str(MINILM / "calib")])
                value, today = pooled(engine, archive), pooled_of_today(engine, archive, float_minilm)
                slow = os.environ.get("QUERN_TIMING") and (seconds > SECONDS or peak > MEGABYTES)
                good = value >= least and today >= least_of_today and not slow
                return good, f"cosine {value:.5f}, at least {least}, of today's sentences {today:.5f}, at least {least_of_today}; {seconds:.1f} s, {peak:.0f} MiB"

            tally.attempt(f"minilm {kind}", measure)
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
