"""Calibrated widths of the embedded model in the engine: mean KL divergence from the float model, in bits per byte, on held-out text.

The samples are windows of other text than the evaluated. usage: bytellama_widths.py [--table]      --table prints the table of docs/forms.md too
"""
import argparse, math, pathlib, tempfile
from bytellama import BATCH, MODEL, MODELS, WINDOW, WINDOWS
from common import Engine, Tally, compile_model, need, ort_session

need("tract", "onnxruntime", "numpy")
import numpy as np

W8, CALIB = ["--bits", "8"], ["--calib", MODELS / "bytellama" / "calib"]
DEFAULT = [*W8, "--act-bits", "query=8,key=8,value=8,output=16,ffn=16,head=8"]
W8A8 = [*W8, "--act-bits", "8"]
# name, flags, most KL
WIDTHS = [
    ("W8, float activations", W8, 1e-4),
    ("default widths, method 0", [*DEFAULT, *CALIB, "--method", "0"], 3e-4),
    ("default widths, method 1", [*DEFAULT, *CALIB], 2e-4),
    ("W8A8, method 0, max", [*W8A8, *CALIB, "--method", "0", "--mode", "max"], 1.1e-2),
    ("W8A8, method 0", [*W8A8, *CALIB, "--method", "0"], 1.1e-2),
    ("W8A8, method 1", [*W8A8, *CALIB], 3e-3),
    ("W8A8, method 3", [*W8A8, *CALIB, "--method", "3"], 3e-3),
    ("W8A8, dynamic", [*W8A8, "--dynamic-activations"], 1.2e-3),
]


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def batches():
    text = np.frombuffer((MODELS / "bytellama" / "valid.txt").read_bytes(), np.uint8).astype(np.int64)
    ids, targets = (text[i : i + WINDOW * WINDOWS].reshape(-1, WINDOW) for i in (0, 1))
    for at in range(0, WINDOWS, BATCH):
        yield [ids[at : at + BATCH], np.ones((BATCH, WINDOW), np.int64)], targets[at : at + BATCH]


def measure(engine, archive, reference):
    """(mean KL from the reference, mean loss), in bits per byte."""
    kl = loss = count = 0
    for (feeds, targets), want in zip(batches(), reference):
        got = log_softmax(engine.run(archive, feeds)[0])
        kl += (np.exp(want) * (want - got)).sum()
        loss -= np.take_along_axis(got, targets[..., None], -1).sum()
        count += targets.size
    return kl / count / math.log(2), loss / count / math.log(2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    tally, engine, rows = Tally(), Engine(), []
    session = ort_session(MODEL)
    reference = [log_softmax(session.run(None, dict(zip(("input_ids", "attention_mask"), feeds)))[0]) for feeds, _ in batches()]
    with tempfile.TemporaryDirectory() as name:
        archive = pathlib.Path(name) / "m.nnef.tar"
        for title, flags, most in WIDTHS:

            def one():
                compile_model(MODEL, archive, *flags)
                kl, loss = measure(engine, archive, reference)
                rows.append((title, kl, loss))
                return kl <= most, f"KL {kl:.5f}, {loss:.4f} bits a byte"

            tally.attempt(title, one)
    if args.table:
        print("| widths | KL, bits a byte | bits a byte |\n| --- | ---: | ---: |")
        for title, kl, loss in rows:
            print(f"| {title} | {kl:.5f} | {loss:.4f} |")
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
