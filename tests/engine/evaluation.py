"""`quern eval` against the engine, bit for bit: single operators, Q4_0 layers behind what the engine rearranges, and the byte llama and MiniLM with 8-bit activations, alone and beside 16-bit ones.

`eval` follows the engine's kernels for AVX-512 (graph/ops/_engine.h). Elsewhere the engine takes others, whose results differ by some 1e-7, and where a code depends on
that, a model's outputs by its own rounding noise: then numbers are held to a tolerance. MiniLM needs its weights: models/fetch_minilm.
"""
import pathlib, tempfile
from common import AVX512, FLOAT, MODELS, SANITIZED, Broken, Engine, Tally, compile_model, need, quern, rel_l2

need("tract", "numpy", "onnx")
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

WIDTHS = [("W8A8", ["--bits", "8", "--act-bits", "8"]),
          ("mixed widths", ["--bits", "8", "--act-bits", "query=8,key=8,value=8,output=16,ffn=16,head=8"])]
random = np.random.default_rng(0)


def normal(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float32)


def node(op, inputs="x", outputs="y", **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def operators():
    """Name, nodes from the inputs (by name) and constants to y."""
    wide = np.concatenate([np.linspace(-30, 30, 3000), random.standard_normal(3000) / 2]).astype(np.float32).reshape(1, 6, 1000)
    for op in ("Erf", "Tanh", "Sigmoid", "Exp", "Gelu"):
        yield op, [node(op)], {"x": wide}, {}
    yield "Gelu by tanh", [node("Gelu", approximate="tanh")], {"x": wide}, {}
    yield "x sigmoid(x)", [node("Sigmoid", "x", "s"), node("Mul", "x s")], {"x": wide}, {}
    yield "Div", [node("Div", "x z")], {"x": wide, "z": wide + np.float32(30.5)}, {}
    yield "Pow", [node("Pow", "x c")], {"x": wide}, {"c": np.float32(3)}
    for n in (5, 17, 70, 256):
        yield f"Softmax of {n}", [node("Softmax", axis=-1)], {"x": normal(2, 4, 9, n, scale=3)}, {}
    for n in (7, 100, 384):
        yield f"LayerNormalization of {n}", [node("LayerNormalization", "x s b", epsilon=1e-12)], {"x": normal(2, 9, n)}, {"s": normal(n), "b": normal(n)}
        yield f"RMSNormalization of {n}", [node("RMSNormalization", "x s", epsilon=1e-6)], {"x": normal(2, 9, n)}, {"s": normal(n)}
        for op in ("ReduceMean", "ReduceSum"):
            for axis in (1, 2):
                yield f"{op} of {n}, axis {axis}", [node(op, "x a")], {"x": normal(2, *((9, n) if axis == 2 else (n, 9)))}, {"a": np.array([axis])}
    for m, k, n in ((17, 32, 17), (1, 64, 30), (33, 200, 70)):
        yield f"MatMul of {m} x {k} x {n}", [node("MatMul", "x z")], {"x": normal(2, 4, m, k), "z": normal(2, 4, k, n)}, {}
        yield f"linear layer {m} x {k} x {n}", [node("MatMul", "x w")], {"x": normal(1, m, k)}, {"w": normal(k, n)}
    yield "Conv", [node("Conv", "x w b", pads=[1, 1, 1, 1])], {"x": normal(1, 8, 20, 20)}, {"w": normal(12, 8, 3, 3), "b": normal(12)}


Q4_0 = ["--bits", "4"]


def blocks_behind():
    """What the engine would move into the weight of a Q4_0 layer, whose blocks cannot be split."""
    constants, x = {"w": normal(128, 64)}, {"x": normal(2, 5, 64)}
    yield "Q4_0 behind a Concat", [node("Tanh", "x", "t"), node("Concat", "x t", "c", axis=-1), node("MatMul", "c w")], x, constants
    yield "Q4_0 behind a Concat and a Reshape", [node("Concat", "x x", "c", axis=-1), node("Reshape", "c s", "r"), node("MatMul", "r w")], x, {**constants, "s": np.array([-1, 128])}
    yield "Q4_0 behind a Concat, by Einsum", [node("Concat", "x x", "c", axis=-1), node("Einsum", "c w", equation="bsd,df->bsf")], x, constants
    yield "Q4_0 behind merged heads", [node("Tanh", "x", "t"), node("Reshape", "t s", "r"), node("MatMul", "r w")], {"x": normal(2, 5, 4, 32)}, {**constants, "s": np.array([0, 0, 128])}


def evaluated(model, sample, outputs, flags):
    done = quern("eval", model, "--eval", sample, "--outputs", outputs, *flags)
    if done.returncode:
        raise Broken(done.stderr.strip()[-500:])
    with np.load(outputs) as z:
        return list(z.values())


def one_operator(engine, folder, flags, nodes, feeds, constants):
    symbols = {name: [f"{name}{i}" if i < len(v.shape) - 1 and "Conv" != nodes[0].op_type else d for i, d in enumerate(v.shape)] for name, v in feeds.items()}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, symbols["x"] if v.shape == feeds["x"].shape else symbols[name])
                                           for name, v in feeds.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), folder / "operator.onnx")
    np.savez(folder / "operator.npz", **feeds)
    compile_model(folder / "operator.onnx", folder / "operator.nnef.tar", *flags)
    want = engine.run(folder / "operator.nnef.tar", feeds)[0]
    got = evaluated(folder / "operator.onnx", folder / "operator.npz", folder / "operator.out.npz", flags)[0]
    other, error = float((got.view(np.int32) != want.view(np.int32)).mean()), rel_l2(got, want)
    return error < 1e-6 and (other == 0 or not AVX512), f"{other:.4f} of the numbers differ, relative L2 {error:.1e}"


def one_model(engine, folder, model, samples, calibration, flags):
    flags = [*flags, "--calib", calibration]
    compile_model(model, folder / "model.nnef.tar", *flags, "--save-bits", folder / "widths.json")
    errors = []
    for sample in samples:
        with np.load(sample) as z:
            want = engine.run(folder / "model.nnef.tar", dict(z))
        got = evaluated(model, sample, folder / "model.out.npz", ["--load-bits", folder / "widths.json"])
        errors.append(max(rel_l2(a, b) for a, b in zip(got, want)))
    return max(errors) <= (0 if AVX512 else 0.1), f"relative L2 at most {max(errors):.1e} on {len(errors)} inputs"


def main():
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for flags, cases in ((FLOAT, operators()), (Q4_0, blocks_behind())):
            for title, *case in cases:
                tally.attempt(title, lambda: one_operator(engine, folder, flags, *case))
        for title, given in (("bytellama", "calib"), ("minilm", "eval"), ("minilm", "modern")):
            here, file = MODELS / title, "minilm.onnx" if title == "minilm" else "model.onnx"
            if title == "minilm" and not (here / "model.safetensors").exists():
                print(f"minilm, {given}: not run, the weights are not here; models/fetch_minilm fetches them")
                continue
            samples = sorted((here / given).glob("sample_*.npz"))[: 1 if SANITIZED else 16]
            for widths, flags in WIDTHS:
                tally.attempt(f"{title}, {given}, {widths}", lambda: one_model(engine, folder, here / file, samples, here / "calib", flags))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
