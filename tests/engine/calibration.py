"""Calibrated activations in the engine: MiniLM's pooled cosine at each configuration, the byte llama's loss, and what must not depend on order, threads or count.

MiniLM needs its weights: models/fetch_minilm.
"""
import os, pathlib, shutil, subprocess, tempfile
from common import MODELS, SANITIZED, Broken, Engine, Tally, compile_model, cosine, need, quern, quern_path

need("tract", "numpy", "onnx")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MINILM = MODELS / "minilm"
W8 = ["--bits", "8"]
DEFAULT = [*W8, "--act-bits", "query=8,key=8,value=8,output=16,ffn=16,head=8"]
# name, flags, least mean pooled cosine
FORMS = [("default widths", DEFAULT, 0.9994), ("W8A8", [*W8, "--act-bits", "8"], 0.9975),
         ("W8A8, zero points", [*W8, "--act-bits", "8", "--method", "3"], 0.998),
         ("default widths, method 0, max", [*DEFAULT, "--method", "0", "--mode", "max"], 0.997),
         ("default widths, histogram-mse", [*DEFAULT, "--mode", "histogram-mse"], 0.996)]


def pooled(engine, archive):
    values = []
    for path in sorted((MINILM / "eval").glob("sample_*.npz")):
        with np.load(path) as x, np.load(path.with_name(path.name.replace("sample_", "expected_"))) as want:
            values.append(cosine(engine.run(archive, dict(x))[0].mean(1), want["last_hidden_state"].mean(1)))
    return float(np.mean(values))


def config_file(folder):
    """Mixed precision by a configuration file is the default widths by options: the same bytes."""
    archive, samples = [folder / n for n in ("a.nnef.tar", "b.nnef.tar")], ["--calib", draw_bytes(folder / "text", 4)]
    (folder / "mixed.json").write_text('{"bit": {"mixedPrecisionApply": true}}')
    model = MODELS / "bytellama" / "model.onnx"
    compile_model(model, archive[0], *DEFAULT, *samples)
    compile_model(model, archive[1], "--config", folder / "mixed.json", *samples)
    return archive[0].read_bytes() == archive[1].read_bytes(), "the archives compared"


def draw_bytes(folder, count):
    folder.mkdir()
    for i in range(count):
        ids = np.random.default_rng(i).integers(32, 127, (1, 20 + i), dtype=np.int64)
        np.savez(folder / f"s{i}.npz", input_ids=ids, attention_mask=np.ones_like(ids))
    return folder


def minilm(engine, folder, flags, least):
    archive = folder / "minilm.nnef.tar"
    compile_model(MINILM / "minilm.onnx", archive, *flags, "--calib", MINILM / "calib")
    value = pooled(engine, archive)
    return value >= least, f"cosine {value:.6f}"


def mlp(path, width=512):
    """Three layers, any number of rows."""
    rng = np.random.default_rng(3)
    nodes, inits, x = [], [], "x"
    for i in range(3):
        inits.append(numpy_helper.from_array((rng.standard_normal((width, width)) / width ** 0.5).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("MatMul", [x, f"w{i}"], [f"h{i}"], f"layer{i}"), helper.make_node("Relu", [f"h{i}"], [f"y{i}"])]
        x = f"y{i}"
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", width])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)


def draw_samples(folder, count, width=512, names=lambda i: f"s{i:05}.npz"):
    folder.mkdir(exist_ok=True)
    for i in range(count):
        rng = np.random.default_rng(i % 24)
        rows = 3 + i % 24
        np.savez(folder / names(i), x=(rng.standard_normal((1, rows, width)) * (1 + 9 * (np.arange(width) % 11 == 4))).astype(np.float32))
    return folder


PINS = ["--layer", "layer*=8/8"]


def peak(*args):
    environment = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=1"}  # what a sanitizer keeps back is not the command's
    child = subprocess.Popen([quern_path(), *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    message = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise Broken(message.strip()[-300:])
    return usage.ru_maxrss / 1024


def memory(folder, mode):
    mlp(folder / "mlp.onnx")
    few, many = draw_samples(folder / "few", 24), draw_samples(folder / "many", 2400)
    a, b = [peak("compile", folder / "mlp.onnx", "-o", folder / "m.nnef.tar", *PINS, "--mode", mode, "--calib", f, "--save-bits", folder / f"{f.name}.json")
            for f in (few, many)]
    same = (folder / "few.json").read_bytes() == (folder / "many.json").read_bytes()
    # of the maximum, what is seen again changes nothing
    return abs(b / a - 1) <= 0.05 and (same or mode != "max"), f"{a:.1f} MiB for 24 samples, {b:.1f} MiB for 2,400 (the same ones repeated)"


def order(folder, mode):
    """The same samples under other names, and other numbers of threads: the same file."""
    mlp(folder / "mlp.onnx")
    first = draw_samples(folder / "first", 8)
    turned = draw_samples(folder / "turned", 8, names=lambda i: f"t{(i * 5 + 3) % 8}.npz")
    texts = []
    for samples, threads in ((first, 1), (turned, 2), (first, 3)):
        file = folder / f"{threads}.json"
        compile_model(folder / "mlp.onnx", folder / "o.nnef.tar", *PINS, "--mode", mode, "--calib", samples, "--threads", threads, "--save-bits", file)
        texts.append(file.read_bytes())
    return texts[0] == texts[1] == texts[2], "three allocations compared"


def interrupted(folder):
    """An interrupt in the middle leaves nothing behind."""
    import signal, time

    mlp(folder / "mlp.onnx")
    samples = draw_samples(folder / "samples", 600)
    out = folder / "out"
    out.mkdir()
    child = subprocess.Popen([quern_path(), "compile", str(folder / "mlp.onnx"), "-o", str(out / "a.nnef.tgz"), *PINS, "--calib", str(samples)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    message = child.stderr.read().decode()
    child.wait()
    left = list(out.iterdir())
    return child.returncode == 1 and not left and "stopped" in message, f"exit {child.returncode}, {len(left)} files left: {message.strip()[-100:]}"


def main():
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def attempt(text, call, *args):
            room = folder / str(tally.passed + tally.failed)
            room.mkdir()
            tally.attempt(text, lambda: call(room, *args))
            shutil.rmtree(room)

        for mode in ("max", "maxPercentile", "histogram-mse", "histogram-kl"):
            attempt(f"order and threads, {mode}", order, mode)
        attempt("memory, max", memory, "max")
        attempt("memory, histogram", memory, "histogram")
        attempt("configuration file", config_file)
        attempt("interrupt", interrupted)
        if (MINILM / "model.safetensors").exists():
            for text, flags, least in FORMS[1:2] if SANITIZED else FORMS:
                attempt(f"MiniLM {text}", lambda room, f=flags, l=least: minilm(engine, room, f, l))
        else:
            print("MiniLM is left out: models/fetch_minilm fetches its weights")
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
