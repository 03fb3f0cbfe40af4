"""Every pair of weight and activation widths in the engine, against `quern eval`, which runs the compiled graph with the archive's arithmetic.

Three models (the embedded byte llama; an encoder and a decoder with a fused query-key-value weight of the zoo, where they are there): outputs of the engine and of
eval are equal bit for bit where the engine has AVX-512, and agree to 1e-3 relative L2 elsewhere (agreement says how), graph.quant holds the scales of static activations, and the engine's own profile of the loaded model shows integer
products for integer layers.
"""
import json, pathlib, tarfile, tempfile
from common import AVX512, MODELS, SHARED, Broken, Engine, Tally, compile_model, need, quern, rel_l2

need("tract", "numpy", "onnx")
import numpy as np

TOLERANCE, INPUTS = 1e-3, 1 if AVX512 else 3
# what runs, flags, integer products for each layer with a role (None: not looked at), whether static scales are recorded
CELLS = [
    ("Q4_0 x float", [], 0, False),
    ("Q4_0 x 16", ["--act-bits", "16"], 0, False),
    ("Q4_0 x 8", ["--act-bits", "8"], 0, True),
    ("Q4_0 x 5", ["--act-bits", "5"], None, True),
    ("Q4_0 x 8, zero point", ["--act-bits", "8", "--method", "2"], None, True),
    ("Q4_0 x 8, dynamic", ["--act-bits", "8", "--dynamic-activations"], 0, False),
    ("2 bits x 8", ["--bits", "2", "--act-bits", "8"], None, True),
    ("f16 x float", ["--bits", "16"], 0, False),
    ("f16 x 8", ["--bits", "16", "--act-bits", "8"], 0, True),
    ("f16 x 8, dynamic", ["--bits", "16", "--act-bits", "8", "--dynamic-activations"], None, False),
    ("f32 x 8", ["--bits", "32", "--act-bits", "8"], 0, True),
    ("i8 x float", ["--bits", "8"], 2, False),
    ("i8 x 8", ["--bits", "8", "--act-bits", "8"], 1, True),
    ("i8 x 8, balanced, zero point", ["--bits", "8", "--act-bits", "8", "--method", "3"], 1, True),
    ("i8 x 8, zero point", ["--bits", "8", "--act-bits", "8", "--method", "2"], None, True),
    ("6 bits x 4", ["--bits", "6", "--act-bits", "4"], 1, True),
    ("i8 x 16", ["--bits", "8", "--act-bits", "16"], 2, True),
    ("i8 x 16, zero point", ["--bits", "8", "--act-bits", "16", "--method", "2"], 2, True),
    ("i8 x 12", ["--bits", "8", "--act-bits", "12"], 2, True),
    ("i8 x 8, dynamic", ["--bits", "8", "--act-bits", "8", "--dynamic-activations"], 1, False),
    ("i8 x 6, dynamic", ["--bits", "8", "--act-bits", "6", "--dynamic-activations"], 1, False),
    ("quantized outputs", ["--config", '{"calibration": {"quantizeOutputs": true, "output": 1, "method": 2}}'], 0, True),
    ("parts", ["--bits", "query=4,key=8,value=16,output=8,ffn=4,head=16", "--act-bits", "query=8,key=8,value=8,output=16,ffn=8,head=8"], None, True),
]
# of the zoo's decoder; its encoder has all, the embedded model, whose size makes it slow, those that are profiled
COMMON = {"Q4_0 x float", "Q4_0 x 8", "Q4_0 x 8, zero point", "Q4_0 x 8, dynamic", "f16 x float", "f16 x 8", "i8 x float", "i8 x 8", "i8 x 8, balanced, zero point",
          "i8 x 16", "i8 x 16, zero point", "i8 x 8, dynamic", "parts"}
PROFILED = {"Q4_0 x 8", "i8 x float", "i8 x 8", "i8 x 16", "i8 x 8, dynamic"}  # a profile takes the engine some seconds


def models(folder):
    text = np.frombuffer((MODELS / "bytellama" / "valid.txt").read_bytes(), np.uint8).astype(np.int64)
    sample = folder / "text.npz"
    np.savez(sample, input_ids=text[:24].reshape(3, 8), attention_mask=np.ones((3, 8), np.int64))
    yield "byte llama", MODELS / "bytellama" / "model.onnx", sample, [c for c in CELLS if c[0] in PROFILED]
    for name in ("bert-dyn", "gpt2-ts"):
        case = SHARED / "zoo" / name
        if case.exists():
            yield name, case / "model.onnx", case / "inputs.npz", CELLS if name == "bert-dyn" else [c for c in CELLS if c[0] in COMMON]


def row_error(got, want):
    """Relative L2 by rows (last axis), the median."""
    if got.shape != want.shape:
        raise Broken(f"shape {got.shape}, expected {want.shape}")
    p, q = (a.astype(np.float64).reshape(-1, a.shape[-1]) for a in (got, want))
    return float(np.median(np.linalg.norm(p - q, axis=1) / (np.linalg.norm(q, axis=1) + 1e-30)))


def scales_recorded(archive):
    with tarfile.open(archive) as tar:
        return "graph.quant" in tar.getnames()


def integer_products(engine, archive, feeds):
    """Products of the loaded model by the type that they are summed in, as the engine's profile counts them."""
    profile = json.loads(engine.ask("profile", str(archive), feeds))
    costs = [node.get("cost", {}) for node in profile["nodes"] if "MatMul" in node["op_name"] and "Pack" not in node["op_name"]]
    return sum("FMA(I32)" in c for c in costs), sum("FMA(F32)" in c for c in costs)


def agreement(engine, archive, feeds, folder, evaluate, outputs):
    """Outputs of the engine and of eval, as a whole. Without AVX-512 the engine sums f32 in another order than we do, so a number on the edge between two codes may fall
    to the other side, which all that depends on it shows from there on, and which says nothing of the arithmetic: then another input is tried, up to INPUTS in all. Most
    rows have to agree on every one."""
    for i in range(INPUTS):
        given = {k: np.roll(v, i, -1) if v.dtype.kind == "i" else v for k, v in feeds.items()}
        np.savez(folder / "input.npz", **given)
        done = quern(*evaluate, "--eval", folder / "input.npz")
        if done.returncode:
            raise Broken(done.stderr.strip()[-500:])
        with np.load(outputs) as want:
            got = engine.run(archive, given)
            rows, whole = (max(f(a, b) for a, b in zip(got, want.values())) for f in (row_error, rel_l2))
        text = f"relative L2 {whole:.1e}" + (f" on input {i + 1}" if i else "")
        if whole <= TOLERANCE or rows > TOLERANCE:
            break
    return whole <= (0 if AVX512 else TOLERANCE), text


def one_cell(engine, folder, model, sample, flags, products, recorded, profile):
    archive, outputs = folder / "cell.nnef.tgz", folder / "outputs.npz"
    if "--config" in flags:
        (folder / "config.json").write_text(flags[1])
        flags = ["--config", folder / "config.json", "--calib", sample]
    if "--act-bits" in flags:
        flags = [*flags, "--calib", sample, *([] if "--method" in flags else ["--method", "0"])]  # the search of the others takes time
    done = compile_model(model, archive, *flags, "--json")
    layers = [l for l in json.loads(done.stdout)["layers"] if l["role"] not in ("", "embedding")]
    with np.load(sample) as z:
        feeds = dict(z)
    good, text = agreement(engine, archive, feeds, folder, ["eval", model, "--outputs", outputs, *flags], outputs)
    if scales_recorded(archive) != recorded:
        return False, text + (", no scales in graph.quant" if recorded else ", scales in graph.quant")
    if profile and products is not None:
        integer, other = integer_products(engine, archive, feeds)
        good = good and integer == products * len(layers)
        text += f"; {integer} integer products, {other} float ones for {len(layers)} layers"
    return good, text


def main():
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for title, model, sample, cells in models(folder):
            for cell, flags, products, recorded in cells:
                profile = cell in PROFILED and title == "byte llama"
                tally.attempt(f"{title}: {cell}", lambda: one_cell(engine, folder, model, sample, flags, products, recorded, profile))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
