"""The ingredients of --rounding gptq one by one, and --equalize, on MiniLM and on the embedded byte LLaMA, in the engine: the tables of docs/rounding.md.

usage: ablation.py QUERN [--model minilm|bytellama|spread ...] [--row TEXT ...]

MiniLM (where models/minilm/model.safetensors is there): mean cosine of the pooled vectors of models/minilm/eval, and of models/minilm/modern, with the float model's. Byte
LLaMA: bits per byte of models/bytellama/valid.txt, and the mean divergence from the float model in bits per byte. Both are calibrated on their calib/ folders, whose text is not evaluated. spread: the byte
LLaMA with channels of very different sizes behind its norms, the same function; only where it is asked for.
"""
import argparse, json, math, pathlib, subprocess, sys, tempfile

import numpy as np
import onnxruntime
import tract

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "engine"))
from spread import spread_channels

MODELS = ROOT / "models"
NOTHING = dict(centre=False, sequential=False, compensate=False, residual=False, permute=False, trial=False, descents=0, copies=0)
# name, rounding, what is given in the configuration's "gptq"; rows of the second kind add to the row before
PLAIN = [("ggml's rule", "signed", None), ("least squared error", "mse", None), ("weighted by the activations' squares", "importance", None)]
STEPS = [
    ("GPTQ, damping 0.01", dict(damping=0.01)),
    ("+ scales by trial inside the block", dict(trial=True)),
    ("+ strong damping", dict(damping=0)),
    ("+ centred moments, bias correction", dict(centre=True)),
    ("+ inputs of the rounded network", dict(sequential=True)),
    ("+ targets that make earlier errors good", dict(compensate=True)),
    ("+ also those of the residual stream", dict(residual=True)),
    ("+ hidden channels sorted", dict(permute=True)),
    ("+ block descents", dict(descents=3)),
    ("+ varied copies of the samples (all)", dict(copies=-1)),
]
WITHOUT = [
    ("all but trial scales", dict(trial=False)), ("all but centring", dict(centre=False)), ("all but the residual stream", dict(residual=False)),
    ("all but compensated targets", dict(compensate=False)), ("all but sorted channels", dict(permute=False)), ("all but descents", dict(descents=0)),
    ("all but copies", dict(copies=0)),
]


def rows():
    """name, rounding, "gptq" of the configuration, further flags"""
    for row in PLAIN:
        yield *row, []
    given = dict(NOTHING)
    for name, change in STEPS:
        given = {**given, **change}
        yield name, "gptq", dict(given), []
    for name, change in WITHOUT:
        yield name, "gptq", change, []
    for rounding in ("signed", "mse", "importance", "gptq"):
        yield f"{rounding}, plain", rounding, None, []
        yield f"{rounding}, equalized", rounding, None, ["--equalize"]


def engine(archive):
    return tract.nnef().with_tract_extra().with_tract_transformers().load(str(archive)).into_runnable()


class MiniLM:
    model, calib = MODELS / "minilm" / "minilm.onnx", MODELS / "minilm" / "calib"
    columns = ["MiniLM, cosine", "text of today"]

    def __init__(self):
        session = onnxruntime.InferenceSession(str(self.model))
        self.texts = []
        for folder in ("eval", "modern"):
            samples = [dict(np.load(path)) for path in sorted((MODELS / "minilm" / folder).glob("sample_*.npz"))]
            self.texts.append([(x, session.run(["last_hidden_state"], x)[0].mean(1)[0]) for x in samples])

    def measure(self, archive):
        run, cells = engine(archive), []
        for text in self.texts:
            cosines = []
            for x, b in text:
                a = run.run([x["input_ids"], x["attention_mask"], x["token_type_ids"]])[0].to_numpy().mean(1)[0]
                cosines.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
            cells.append(f"{np.mean(cosines):.5f}")
        return cells


class ByteLlama:
    model, calib = MODELS / "bytellama" / "model.onnx", MODELS / "bytellama" / "calib"
    columns = ["byte LLaMA, bits a byte", "divergence"]
    WINDOW, WINDOWS, BATCH = 128, 128, 16

    def __init__(self):
        text = np.frombuffer((MODELS / "bytellama" / "valid.txt").read_bytes(), np.uint8).astype(np.int64)
        count = self.WINDOW * self.WINDOWS
        self.ids, self.next = text[:count].reshape(-1, self.WINDOW), text[1 : count + 1].reshape(-1, self.WINDOW)
        session = onnxruntime.InferenceSession(str(self.model))
        self.exact = self.log_likelihoods(lambda x: session.run(None, {"input_ids": x, "attention_mask": np.ones_like(x)})[0])

    def log_likelihoods(self, run):
        parts = []
        for at in range(0, self.WINDOWS, self.BATCH):
            logits = run(self.ids[at : at + self.BATCH]).astype(np.float64)
            logits -= logits.max(-1, keepdims=True)
            parts.append(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
        return np.concatenate(parts)

    def measure(self, archive):
        run = engine(archive)
        got = self.log_likelihoods(lambda x: run.run([x, np.ones_like(x)])[0].to_numpy())
        bits = -np.take_along_axis(got, self.next[..., None], -1).mean() / math.log(2)
        divergence = (np.exp(self.exact) * (self.exact - got)).sum(-1).mean() / math.log(2)
        return [f"{bits:.4f}", f"{divergence:.5f}"]


class SpreadLlama(ByteLlama):
    columns = ["spread, bits a byte", "divergence"]

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = pathlib.Path(self.folder.name) / "model.onnx"
        spread_channels(ByteLlama.model, self.model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("--model", action="append", choices=["minilm", "bytellama", "spread"])
    parser.add_argument("--row", action="append", help="only rows whose name contains this")
    args = parser.parse_args()
    wanted = args.model or ["minilm", "bytellama"]
    if not (MODELS / "minilm" / "model.safetensors").exists():
        wanted = [m for m in wanted if m != "minilm"]
    models = [{"minilm": MiniLM, "bytellama": ByteLlama, "spread": SpreadLlama}[m]() for m in wanted]
    columns = [c for m in models for c in m.columns]
    print("| rounding |", " | ".join(columns), "|\n| --- |" + " --- |" * len(columns))
    with tempfile.TemporaryDirectory() as folder:
        archive, config = pathlib.Path(folder) / "a.nnef.tgz", pathlib.Path(folder) / "config.json"
        for name, rounding, given, flags in rows():
            if args.row and not any(part in name for part in args.row):
                continue
            cells = []
            for m in models:
                config.write_text(json.dumps({"gptq": given or {}}))
                subprocess.run([args.quern, "compile", m.model, "-o", archive, "--quiet", "--rounding", rounding, "--calib", m.calib, "--config", config, *flags],
                    check=True, stdout=subprocess.DEVNULL)
                cells += m.measure(archive)
            print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
