"""Integers of 4 and 2 bits, and floats of 8 and 4, inside models: archives in the engine against the reference of ONNX, and what is refused.

usage: small_types.py
"""
import pathlib, sys, tempfile
from common import FLOAT, Broken, Engine, Tally, compile_model, need, quern, rel_l2

need("tract", "onnx", "numpy")
import numpy as np, onnx
from onnx import TensorProto as T, helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(7)
INTEGERS = {T.INT4: (-8, 7), T.UINT4: (0, 15), T.INT2: (-2, 1), T.UINT2: (0, 3)}
FLOATS = [T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ, T.FLOAT4E2M1]


def name_of(number):
    return T.DataType.Name(number).lower()


def constant(name, number, values):
    """An initializer of the type with the values nearest to those given."""
    values = np.asarray(values, np.float32).astype(helper.tensor_dtype_to_np_dtype(number))
    return onnx.numpy_helper.from_array(values, name)


def model(nodes, constants, ins, outs):
    ports = lambda l: [helper.make_tensor_value_info(n, t, s) for n, t, s in l]
    graph = helper.make_graph(nodes, "small", ports(ins), ports(outs), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def quantized(number):
    """x goes through integers of few bits whose type and zero point an initializer gives."""
    low, high = INTEGERS[number]
    consts = [constant("s", T.FLOAT, 0.25), constant("z", number, (low + high) // 2)]
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("Reshape", ["q", "shape"], ["r"]),
             helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"])]
    consts.append(onnx.numpy_helper.from_array(np.array([-1], np.int64), "shape"))
    return model(nodes, consts, [("x", T.FLOAT, [4, 16])], [("y", T.FLOAT, [64])]), (RNG.standard_normal((4, 16)) * 2).astype(np.float32)


def weights(number):
    """A matrix of the type, dequantized by columns."""
    w = RNG.integers(*INTEGERS[number], (32, 8), endpoint=True) if number in INTEGERS else RNG.standard_normal((32, 8))
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=1), helper.make_node("MatMul", ["x", "f"], ["y"])]
    consts = [constant("w", number, w), constant("s", T.FLOAT, RNG.random(8) + 0.5)]
    return model(nodes, consts, [("x", T.FLOAT, [3, 32])], [("y", T.FLOAT, [3, 8])]), RNG.standard_normal((3, 32)).astype(np.float32)


def table(number):
    """Rows of a table of the type, picked at run time and then cast."""
    w = RNG.integers(*INTEGERS[number], (16, 8), endpoint=True) if number in INTEGERS else RNG.standard_normal((16, 8))
    nodes = [helper.make_node("Gather", ["w", "x"], ["rows"]), helper.make_node("Cast", ["rows"], ["y"], to=T.FLOAT)]
    return model(nodes, [constant("w", number, w)], [("x", T.INT64, [5])], [("y", T.FLOAT, [5, 8])]), RNG.integers(0, 16, 5)


def equals(engine, folder, built):
    proto, x = built
    path, archive = folder / "m.onnx", folder / "m.nnef.tar"
    onnx.save(proto, path)
    want = ReferenceEvaluator(proto).run(None, {"x": x})[0]
    np.savez(folder / "in.npz", x=x)
    done = quern("run", path, "--input", folder / "in.npz", "-o", folder / "out.npz")
    if done.returncode:
        raise Broken(done.stderr.strip()[-500:])
    compile_model(path, archive, *FLOAT)
    run, got = rel_l2(np.load(folder / "out.npz")["y"], want), rel_l2(engine.run(archive, [x])[0], want)
    return run < 1e-6 and got < 1e-6, f"quern run {run:.1e}, the archive {got:.1e}"


def refused(folder, proto, *words):
    path = folder / "m.onnx"
    onnx.save(proto, path)
    done = quern("compile", path, "-o", folder / "m.nnef.tar", *FLOAT)
    text = done.stderr.strip()
    return done.returncode != 0 and all(w in text for w in words) and text.count("\n") == 0, text[-200:]


def written(folder):
    """Outputs of these types in a .npz, which NumPy has no types for."""
    proto = model([helper.make_node("Cast", ["x"], ["i"], to=T.INT4), helper.make_node("Cast", ["x"], ["f"], to=T.FLOAT8E5M2)], [],
                  [("x", T.FLOAT, [3])], [("i", T.INT4, [3]), ("f", T.FLOAT8E5M2, [3])])
    onnx.save(proto, folder / "m.onnx")
    np.savez(folder / "in.npz", x=np.array([-3.4, 5, 7], np.float32))
    done = quern("run", folder / "m.onnx", "--input", folder / "in.npz", "-o", folder / "out.npz")
    if done.returncode:
        raise Broken(done.stderr.strip()[-500:])
    out = np.load(folder / "out.npz")
    good = out["i"].dtype == np.int8 and out["i"].tolist() == [-3, 5, 7] and out["f"].dtype == np.float32 and out["f"].tolist() == [-3.5, 5, 7]
    return good, f"{out['i']} {out['f']}"


def main():
    tally, engine = Tally(), Engine()
    real, cast = [("x", T.FLOAT, [3])], lambda a, b, to, name="": helper.make_node("Cast", [a], [b], name=name, to=to)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number in INTEGERS:
            tally.attempt(f"activations of {name_of(number)}", lambda: equals(engine, folder, quantized(number)))
        for number in [*INTEGERS, *FLOATS]:
            tally.attempt(f"weights of {name_of(number)}", lambda: equals(engine, folder, weights(number)))
            tally.attempt(f"a table of {name_of(number)}", lambda: equals(engine, folder, table(number)))
            tally.attempt(f"a cast to {name_of(number)} in an archive", lambda: refused(
                folder, model([cast("x", "c", number, "to_small"), cast("c", "y", T.FLOAT)], [], real, [("y", T.FLOAT, [3])]), "to_small", name_of(number)))
        output = model([cast("x", "y", T.FLOAT8E5M2, "last")], [], real, [("y", T.FLOAT8E5M2, [3])])
        tally.attempt("an output", lambda: refused(folder, output, "'y'", "last", "float8e5m2"))
        source = model([cast("x", "y", T.FLOAT)], [], [("x", T.UINT2, [3])], [("y", T.FLOAT, [3])])
        tally.attempt("an input", lambda: refused(folder, source, "'x'", "uint2"))
        add = helper.make_node("Add", ["c", "c"], ["y"], name="sum")
        tally.attempt("arithmetic", lambda: refused(folder, model([cast("x", "c", T.INT4), add], [], real, [("y", T.INT4, [3])]), "sum", "int4"))
        tally.attempt("NumPy's archives", lambda: written(folder))
    engine.close()
    tally.end()


if __name__ == "__main__":
    sys.exit(main())
