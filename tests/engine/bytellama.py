"""The embedded model in the engine: bits per byte on held-out text for each storage, and greedy decoding token by token.

usage: bytellama.py [--table]      --table prints the README's table and ends
"""
import argparse, math, os, pathlib, tempfile
from common import FLOAT, MODELS, Engine, Tally, compile_model, need, ort_session, rel_l2

need("tract", "onnxruntime", "numpy")
import numpy as np

MODEL, WITH_PAST = MODELS / "bytellama" / "model.onnx", MODELS / "bytellama" / "model-kv.onnx"
WINDOW, WINDOWS, BATCH = 128, 128, 16
# name, flags, most bits per byte, most bytes of archive
STORAGES = [
    ("f32", FLOAT, 1.7554, 12_000_000),
    ("f16", ["--bits", "16"], 1.7554, 6_000_000),
    ("int8", ["--bits", "8"], 1.7560, 3_400_000),
    ("Q4_0", [], 1.7720, 1_800_000),
]
PROMPT, LENGTH = b"And God said", 64


def bits_per_byte(run):
    """Mean over consecutive windows, each predicting its next bytes; `run` maps ids and a mask to logits."""
    text = np.frombuffer((MODELS / "bytellama" / "valid.txt").read_bytes(), np.uint8).astype(np.int64)
    ids = text[: WINDOW * WINDOWS].reshape(-1, WINDOW)
    targets = text[1 : WINDOW * WINDOWS + 1].reshape(-1, WINDOW)
    total = 0.0
    for at in range(0, WINDOWS, BATCH):
        x, y = ids[at : at + BATCH], targets[at : at + BATCH]
        logits = run([x, np.ones_like(x)]).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(logits, y[..., None], -1)[..., 0]
        total += (np.log(np.exp(logits).sum(-1)) - chosen).sum()
    return total / ids.size / math.log(2)


def greedy(run, past_names, shape):
    """LENGTH tokens after PROMPT, from an empty past, one step a token; also the logits of each step."""
    past, tokens, seen, made, logits = [np.zeros(shape, np.float32)] * len(past_names), list(PROMPT), 0, [], []
    for _ in range(LENGTH):
        total = seen + len(tokens)
        feeds = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(seen, total, dtype=np.int64)[None],
            **dict(zip(past_names, past)),
        }
        outputs = run(feeds)
        past, seen = outputs[1:], total
        logits.append(outputs[0][0, -1])
        tokens = [int(logits[-1].argmax())]
        made += tokens
    return made, np.stack(logits)


def decoding(engine, folder):
    session = ort_session(WITH_PAST)
    names = [port.name for port in session.get_inputs()][3:]
    shape = [d if isinstance(d, int) else 0 for d in session.get_inputs()[3].shape]
    shape[0] = 1
    archive = folder / "kv.nnef.tgz"
    compile_model(WITH_PAST, archive, *FLOAT)
    ours, our_logits = greedy(lambda feeds: engine.run(archive, feeds), names, shape)
    theirs, their_logits = greedy(lambda feeds: session.run(None, feeds), names, shape)
    error = rel_l2(our_logits, their_logits)
    return ours == theirs and error <= 1e-4, f"{LENGTH} tokens, logits' relative L2 {error:.1e}: {bytes(ours).decode('latin-1')!r}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    tally, engine, rows = Tally(), Engine(), []
    reference = bits_per_byte(lambda feeds: ort_session(MODEL).run(None, dict(zip(("input_ids", "attention_mask"), feeds)))[0])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind, flags, most_bits, most_bytes in STORAGES:
            archive = folder / f"{kind}.nnef.tgz"

            def measure():
                compile_model(MODEL, archive, *flags)
                bits, size = bits_per_byte(lambda feeds: engine.run(archive, feeds)[0]), os.path.getsize(archive)
                rows.append((kind, bits, size))
                return bits <= most_bits and size <= most_bytes, f"{bits:.4f} bits a byte, {size} bytes"

            tally.attempt(kind, measure)
        if args.table:
            print("| weights | bits per byte | archive |\n| --- | --- | --- |")
            print(f"| float in onnxruntime | {reference:.4f} | {MODEL.stat().st_size / 1e6:.2f} MB (the .onnx) |")
            for kind, bits, size in rows:
                print(f"| {kind} | {bits:.4f} | {size / 1e6:.2f} MB |")
        else:
            tally.check(abs(reference - 1.755) < 1e-3, f"onnxruntime: {reference:.4f} bits a byte")
            tally.attempt("greedy decoding", lambda: decoding(engine, folder))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
