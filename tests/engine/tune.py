"""Tuned widths: what is resumed, interrupted or run on other threads gives the same file; the file does in the engine what the tuning says, and better than widths
by role of the same size. The byte llama; and MiniLM where its weights are.
"""
import json, math, pathlib, shutil, signal, subprocess, tempfile, time
from common import MODELS, SANITIZED, Broken, Engine, Tally, compile_model, need, ort_session, quern, quern_path

need("tract", "onnxruntime", "numpy", "onnx")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LLAMA, CALIB = MODELS / "bytellama" / "model.onnx", MODELS / "bytellama" / "calib"
MINILM = MODELS / "minilm"
WINDOW, WINDOWS, BATCH, FEW = 128, 32, 16, 2 if SANITIZED else 8


def tune(out, *flags, model=LLAMA, samples=None):
    done = quern("tune", model, "-o", out, "--calib", samples or pathlib.Path(out).parent / "samples", "--quiet", *flags)
    if done.returncode:
        raise Broken(done.stderr.strip()[-500:])
    return json.loads(pathlib.Path(out).read_text())


def logits_of(run):
    text = np.frombuffer((MODELS / "bytellama" / "valid.txt").read_bytes(), np.uint8).astype(np.int64)
    ids = text[: WINDOW * WINDOWS].reshape(-1, WINDOW)
    parts = [run([ids[at : at + BATCH], np.ones_like(ids[at : at + BATCH])]) for at in range(0, WINDOWS, BATCH)]
    logits = np.concatenate(parts).astype(np.float64)
    return logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)


def divergence(exact, got):
    return float((np.exp(exact) * (exact - got)).sum(-1).mean() / math.log(2))


def interrupted(folder, reference):
    """SIGINT once something was measured: only the state stays, and the same command ends as if nothing had been."""
    out, state, samples = folder / "i.json", folder / "i.json.partial", folder / "samples"
    command = [quern_path(), "tune", str(LLAMA), "-o", str(out), "--calib", str(samples), "--max-bits", "5.5", "--threads", "1"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while child.poll() is None and not (state.exists() and state.read_text().count("\n") > 3):
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    message, code = child.stderr.read().decode(), child.wait()
    left = sorted(p.name for p in folder.glob("i.json*"))
    measured = state.read_text().count("\n") - 1 if state.exists() else 0
    with open(state, "a") as f:
        f.write("3 4 3f")  # a line that was cut
    done = quern("tune", LLAMA, "-o", out, "--calib", samples, "--max-bits", "5.5")
    good = code == 1 and "stopped" in message and left == ["i.json.partial"] and f"{measured} measured errors taken over" in done.stderr
    good = good and out.read_bytes() == reference.read_bytes() and not state.exists()
    return good, f"{measured} errors measured before the interruption, left: {left}"


def other_samples(folder):
    """A state of other samples is not taken: a file that was named is left alone, the default one makes way."""
    state = folder / "kept"
    one = folder / "one.npz"
    one.write_bytes(sorted(CALIB.glob("*.npz"))[0].read_bytes())
    tune(folder / "x.json", "--max-bits", "5", "--state", state, samples=one)
    first = state.read_text()
    command = ["tune", LLAMA, "-o", folder / "x.json", "--calib", folder / "samples", "--max-bits", "5", "--bits", "ffn=4,head=8,query=8,key=4"]
    named = quern(*command, "--state", state)
    good = named.returncode == 1 and "name another file for the state" in named.stderr and state.read_text() == first
    state.rename(folder / "x.json.partial")
    done = quern(*command)
    return good and done.returncode == 0 and "measured anew" in done.stderr and not (folder / "x.json.partial").exists(), done.stderr.strip()[-100:]


def llama(tally, engine, folder):
    (folder / "samples").mkdir()
    for path in sorted(CALIB.glob("*.npz"))[:FEW]:
        shutil.copy(path, folder / "samples")
    reference = folder / "t.json"
    chosen = tune(reference, "--max-bits", "5.5", "--threads", "2", "--curve", folder / "c.json")
    single = folder / "s.json"
    tune(single, "--max-bits", "5.5", "--threads", "1")
    tally.check(reference.read_bytes() == single.read_bytes(), "one thread or two, the same bytes")
    tally.attempt("interrupted", lambda: interrupted(folder, reference))
    tally.attempt("a state of other samples", lambda: other_samples(folder))
    result = json.loads((folder / "c.json").read_text())
    curve = result["tuning"]["curve"]
    tally.check(all(a["bytes"] < b["bytes"] and a["error"] > b["error"] for a, b in zip(curve, curve[1:])), f"a curve of {len(curve)} points")
    if SANITIZED:
        return
    session = ort_session(LLAMA)
    exact = logits_of(lambda feeds: session.run(None, dict(zip(("input_ids", "attention_mask"), feeds)))[0])

    def score(name, *flags):
        archive = folder / f"{name}.nnef.tgz"
        compile_model(LLAMA, archive, "--calib", folder / "samples", *flags)
        return divergence(exact, logits_of(lambda feeds: engine.run(archive, feeds)[0]))

    tuned = score("tuned", "--load-bits", reference)
    by_role = {roles: score("role", "--rounding", "gptq", "--bits", roles) for roles in ("ffn=4,query=8,key=8,value=8,output=8,head=8",)}
    bits = chosen["tuning"]["chosen"]["bits"]
    tally.check(bits <= 5.5 and tuned < min(by_role.values()), f"{bits:.3f} bits: divergence {tuned:.6f} bits a byte; by role {by_role}")
    least = tune(folder / "m.json", "--min-cosine", "0.99995")
    measured = least["tuning"]["chosen"]["measured"]
    tally.check(measured <= 5e-5 and 4.5 < least["tuning"]["chosen"]["bits"] < 8, f"a cosine of {1 - measured:.6f} executed at {least['tuning']['chosen']['bits']:.3f} bits")


def small(path, nodes, outputs):
    """Layers of 64 x 64 (`wide`: 96 x 64) by the names of their weights, and samples of their input."""
    rng = np.random.default_rng(5)
    shapes = {"up": (64, 64), "down": (64, 64), "out": (64, 64), "pool": (64, 64), "wide": (96, 64)}
    weights = [numpy_helper.from_array((rng.standard_normal(shape) / 8).astype(np.float32), n) for n, shape in shapes.items()]
    made = [helper.make_node(op, ins.split(), [out], f"{op}_{out}", **attrs) for op, ins, out, attrs in nodes]
    graph = helper.make_graph(made, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
                              [helper.make_tensor_value_info(n, t, None) for n, t in outputs], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    np.savez(path.with_suffix(".npz"), x=rng.standard_normal((40, 64)).astype(np.float32))
    return path


TRUNK = [("MatMul", "x up", "h", {}), ("Relu", "h", "r", {}), ("MatMul", "r down", "d", {}), ("Add", "d x", "s", {}), ("MatMul", "s out", "logits", {})]


def modelled(engine, path, bits, nodes, outputs):
    """The tuning, and what it says of the error over what the archive does."""
    model = small(path, nodes, [(name, TensorProto.FLOAT) for name in outputs])
    samples, widths, archive = path.with_suffix(".npz"), path.with_suffix(".json"), path.with_suffix(".nnef.tar")
    flags = ["--rounding", "mse", "--embedding-bits", "32"]
    found = tune(widths, "--max-bits", bits, *flags, model=model, samples=samples)["tuning"]
    feeds = dict(np.load(samples))
    compile_model(model, archive, "--load-bits", widths, *flags)
    exact, got = ort_session(model).run(None, feeds), engine.run(archive, feeds)
    error = np.mean([1 - np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(map(np.float64, exact), map(np.float64, got))])
    return found, error / found["chosen"]["error"]


def beside_logits(engine, folder):
    """A layer that leads to another output than the logits costs what it does there: the modelled error is that of the archive."""
    found, ratio = modelled(engine, folder / "two.onnx", "5.6", TRUNK + [("MatMul", "s pool", "p", {}), ("Tanh", "p", "pooled", {})], ["logits", "pooled"])
    return found["measure"] == "cosine" and 0.7 < ratio < 1.4, f"{found['measure']}; in the engine {ratio:.3f} of what is modelled"


def transposed(engine, folder):
    """A table that one layer reads as it is, and another transposed: each is measured with codes of its own."""
    nodes = [("ArgMax", "x", "i", {"axis": -1, "keepdims": 0}), ("Gather", "wide i", "e", {}), ("Transpose", "wide", "t", {"perm": [1, 0]}), ("MatMul", "e t", "h", {}),
             ("Relu", "h", "r", {}), ("MatMul", "r wide", "d", {}), ("Tanh", "d", "y", {})]
    found, ratio = modelled(engine, folder / "transposed.onnx", "9", nodes, ["y"])
    return 0.5 < ratio < 2, f"in the engine {ratio:.3f} of what is modelled"


def stored_bytes(archive):
    return json.loads(quern("dump", archive, "--json").stdout)["bytes"]


def stored_once(folder):
    """Layers that share a weight are one weight of the archive, and of the size that the tuning promises."""
    nodes, x = [], "x"
    for i in range(3):
        nodes += [("MatMul", f"{x} up", f"h{i}", {}), ("Relu", f"h{i}", f"r{i}", {}), ("Add", f"r{i} {x}", f"s{i}", {})]
        x = f"s{i}"
    model = small(folder / "shared.onnx", nodes + [("MatMul", f"{x} out", "y", {})], [("y", TensorProto.FLOAT)])
    samples, sizes = model.with_suffix(".npz"), []
    for bits in ("5", "9", "16"):
        promised = tune(folder / "shared.json", "--max-bits", bits, "--rounding", "mse", model=model, samples=samples)["tuning"]["chosen"]["bytes"]
        compile_model(model, folder / "shared.nnef.tar", "--load-bits", folder / "shared.json", "--rounding", "mse")
        sizes.append((promised, stored_bytes(folder / "shared.nnef.tar")))
    return all(p == s for p, s in sizes), f"promised and stored {sizes}"


def few_rows(folder):
    """A rounding by samples leaves layers alone that read too few rows, and their biases are not stored."""
    model = small(folder / "few.onnx", TRUNK, [("logits", TensorProto.FLOAT)])
    np.savez(folder / "few.npz", x=np.random.default_rng(3).standard_normal((8, 64)).astype(np.float32))
    sizes = []
    for rounding in ("gptq", "importance"):
        promised = tune(folder / "few.json", "--max-bits", "5", "--rounding", rounding, model=model, samples=folder / "few.npz")["tuning"]["chosen"]["bytes"]
        compile_model(model, folder / "few.nnef.tar", "--load-bits", folder / "few.json", "--rounding", rounding, "--calib", folder / "few.npz")
        sizes.append((promised, stored_bytes(folder / "few.nnef.tar")))
    return all(p == s for p, s in sizes), f"promised and stored {sizes}"


def nothing_to_measure(folder):
    """Outputs that have no error are refused, not taken for exact."""
    ids = small(folder / "ids.onnx", TRUNK + [("ArgMax", "logits", "ids", {"axis": -1})], [("ids", TensorProto.INT64)])
    bad = small(folder / "bad.onnx", TRUNK + [("Log", "logits", "y", {})], [("y", TensorProto.FLOAT)])
    said = [quern("tune", m, "-o", folder / "n.json", "--max-bits", "8", "--calib", m.with_suffix(".npz")) for m in (ids, bad)]
    good = [d.returncode == 1 and text in d.stderr for d, text in zip(said, ("no output of the model holds floats", "output 'y' is NaN in float"))]
    return all(good) and not list(folder.glob("n.json*")), f"{good}"


def activations(allocation):
    """The part of the multiply-adds that 8-bit integers do."""
    layers = [l for l in json.loads(allocation.read_text())["layers"] if l["role"] != "embedding"]
    size = lambda l: l["shape"][0] * l["shape"][1]
    return sum(size(l) for l in layers if l["actBits"] <= 8) / sum(map(size, layers))


def minilm(tally, engine, folder):
    from minilm import pooled

    def narrow():
        """Accuracy and integers between those of activations that are all of 16 or all of 8 bits."""
        allocation, archive = folder / "v.json", folder / "v.nnef.tgz"
        tune(allocation, "--bits", "8", "--act", "--min-cosine", "0.9995", model=MINILM / "minilm.onnx", samples=MINILM / "calib")
        compile_model(MINILM / "minilm.onnx", archive, "--load-bits", allocation, "--calib", MINILM / "calib")
        value, part = pooled(engine, archive), activations(allocation)
        done = quern("eval", MINILM / "minilm.onnx", "--load-bits", allocation, "--calib", MINILM / "calib", "--eval", MINILM / "calib", "--json")
        said = json.loads(done.stdout)["outputs"][0]["cosine"]
        return value >= 0.9990 and part >= 0.6 and said >= 0.9995, f"{value:.6f} with {part:.0%} in 8-bit integers; eval says {said:.6f}"

    tally.attempt("MiniLM, int8, activations for 0.9995", narrow)
    state = folder / "state"
    for bits, least in ((5.0, 0.9960), (5.5, 0.9970), (7.0, 0.9985)):
        allocation, archive = folder / "a.json", folder / "a.nnef.tgz"

        def measure():
            tune(allocation, "--max-bits", str(bits), "--state", state, model=MINILM / "minilm.onnx", samples=MINILM / "calib")
            compile_model(MINILM / "minilm.onnx", archive, "--load-bits", allocation, "--calib", MINILM / "calib", "--rounding", "gptq")
            value = pooled(engine, archive)
            return value >= least, f"{value:.6f} in {archive.stat().st_size / 1e6:.1f} MB"

        tally.attempt(f"MiniLM at {bits} bits a weight", measure)


def main():
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as name:
        tally.attempt("a layer beside the logits", lambda: beside_logits(engine, pathlib.Path(name)))
        tally.attempt("a transposed weight", lambda: transposed(engine, pathlib.Path(name)))
        tally.attempt("weights that layers share", lambda: stored_once(pathlib.Path(name)))
        tally.attempt("few rows", lambda: few_rows(pathlib.Path(name)))
        tally.attempt("no output to measure", lambda: nothing_to_measure(pathlib.Path(name)))
        llama(tally, engine, pathlib.Path(name))
        if SANITIZED:
            print("the scores are left to other builds")
        elif (MINILM / "model.safetensors").exists():
            minilm(tally, engine, pathlib.Path(name))
        else:
            print("SKIP MiniLM: its weights are not here; models/fetch_minilm fetches them")
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
