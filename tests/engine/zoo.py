"""Twenty small exports of ten architectures by both exporters, through the engine.

Float archives against onnxruntime's recorded outputs (relative L2 <= 1e-4), at another batch and sequence too, decoders with a past step by step
from an empty one; Q4_0 and 8-bit archives load and stay near; no shape computation is left in the graph; roles are those of the true parameters.
"""
import argparse, json, pathlib, tarfile, tempfile
from common import FLOAT, SHARED, Broken, Engine, Tally, compile_model, cosine, need, ort_session, quern, rel_l2, skip

need("tract", "onnxruntime", "numpy")
import numpy as np

TOLERANCE = 1e-4
TOLERANCE_RUN = 1e-5  # of our own float execution
NEAR = {"q4_0": ([], 0.85), "int8": (["--bits", "8"], 0.999)}


def samples(path):
    with np.load(path) as z:
        return dict(z)


def other_inputs(session, sample, rng):
    """Inputs of another batch and another length: a named dim of size n becomes n + 1, or n + 4 where it is a length. Masks end in padding."""
    feeds = {}
    for port in session.get_inputs():
        old = sample[port.name]
        shape = [d if isinstance(port.shape[i], int) else (d + 1 if i == 0 else d + 4) for i, d in enumerate(old.shape)]
        if old.dtype.kind == "f":
            feeds[port.name] = rng.standard_normal(shape).astype(old.dtype)
        elif "mask" in port.name:
            feeds[port.name] = np.ones(shape, old.dtype)
            feeds[port.name][0, -2:] = 0
        else:
            feeds[port.name] = rng.integers(0, old.max() + 1, shape).astype(old.dtype)
    return feeds


def past_inputs(session, sample, batch, past, new, rng):
    """Inputs of a decoder step: `new` tokens after `past` ones."""
    feeds = {
        "input_ids": rng.integers(0, sample["input_ids"].max() + 1, (batch, new)),
        "attention_mask": np.ones((batch, past + new), np.int64),
        "position_ids": np.tile(np.arange(past, past + new), (batch, 1)),
    }
    for port in session.get_inputs():
        if "past" in port.name:
            _, heads, _, width = sample[port.name].shape
            feeds[port.name] = rng.standard_normal((batch, heads, past, width)).astype(np.float32)
    return feeds


def worst(outputs, expected):
    if len(outputs) != len(expected):
        raise Broken(f"{len(outputs)} outputs, expected {len(expected)}")
    return max(rel_l2(a, b) for a, b in zip(outputs, expected))


def compare(engine, archive, session, feeds):
    error = worst(engine.run(archive, feeds), session.run(None, feeds))
    return error <= TOLERANCE, f"relative L2 {error:.1e}"


def step_by_step(engine, archive, session, sample, rng):
    """Each side carries its own past, from none, over a prompt of three tokens and five single ones."""
    ours, theirs, past, worst_error = None, None, 0, 0.0
    for new in (3, 1, 1, 1, 1, 1):
        feeds = past_inputs(session, sample, 2, past, new, rng)
        names = [n for n in feeds if "past" in n]
        mine = {**feeds, **dict(zip(names, ours))} if ours else feeds
        refs = {**feeds, **dict(zip(names, theirs))} if theirs else feeds
        got, want = engine.run(archive, mine), session.run(None, refs)
        worst_error = max(worst_error, worst(got, want))
        ours, theirs, past = got[1:], want[1:], past + new
    return worst_error <= TOLERANCE, f"relative L2 {worst_error:.1e}"


def graph_text(archive):
    with tarfile.open(archive) as tar:
        return tar.extractfile("graph.nnef").read().decode()


def dynamic(archive, session):
    """Named dims of the inputs stay symbols, and nothing asks for a shape at run time."""
    text = graph_text(archive)
    asks = [word for word in ("tract_core_shape_of", "shape_of(") if word in text]
    symbols = text.count("extension tract_symbol ")
    wanted = any(isinstance(d, str) for port in session.get_inputs() for d in port.shape)
    return not asks and (symbols > 0) == wanted, f"{symbols} symbols, shape operators left: {asks or 'none'}"


def roles(case):
    truth = json.loads((case / "roles.json").read_text())
    done = quern("inspect", case / "model.onnx", "--json")
    if done.returncode:
        raise Broken(done.stderr.strip())
    got = {layer["weight"]: layer["role"] for layer in json.loads(done.stdout)["layers"]}
    wrong = [f"{w} is {v['role']}, tagged {got.get(w)}" for w, v in truth.items() if v["role"] and got.get(w) != v["role"]]
    wrong += [f"{w} has no role, tagged {got[w]}" for w, v in truth.items() if not v["role"] and got.get(w) not in (None, "", "embedding", "head")]
    return not wrong, f"{sum(bool(v['role']) for v in truth.values())} weights {'; '.join(wrong)[:300]}"


def one_model(case, tally, engine, folder):
    name, sample = case.name, samples(case / "inputs.npz")
    expected = list(samples(case / "outputs.npz").values())
    session, rng = ort_session(case / "model.onnx"), np.random.default_rng(7)
    archive = folder / f"{name}.nnef.tgz"

    def float_archive():
        compile_model(case / "model.onnx", archive, *FLOAT)
        error = worst(engine.run(archive, sample), expected)
        return error <= TOLERANCE, f"relative L2 {error:.1e}"

    def executed():
        done = quern("run", case / "model.onnx", "--input", case / "inputs.npz", "-o", folder / "run.npz")
        if done.returncode:
            raise Broken(done.stderr.strip()[-300:])
        got = samples(folder / "run.npz")
        error = worst([got[o.name] for o in session.get_outputs()], expected)
        return error <= TOLERANCE_RUN, f"relative L2 {error:.1e}"

    tally.attempt(f"{name} quern run", executed)
    if tally.attempt(f"{name} float", float_archive):
        tally.attempt(f"{name} dynamic", lambda: dynamic(archive, session))
        if any("past" in n for n in sample):
            tally.attempt(f"{name} other past", lambda: compare(engine, archive, session, past_inputs(session, sample, 3, 6, 2, rng)))
            tally.attempt(f"{name} no past", lambda: compare(engine, archive, session, past_inputs(session, sample, 1, 0, 5, rng)))
            tally.attempt(f"{name} step by step", lambda: step_by_step(engine, archive, session, sample, rng))
        else:
            tally.attempt(f"{name} other shape", lambda: compare(engine, archive, session, other_inputs(session, sample, rng)))
    for kind, (flags, least) in NEAR.items():

        def near():
            compile_model(case / "model.onnx", archive, *flags)
            value = min(cosine(a, b) for a, b in zip(engine.run(archive, sample), expected))
            return value >= least, f"cosine {value:.4f}"

        tally.attempt(f"{name} {kind}", near)
    tally.attempt(f"{name} roles", lambda: roles(case))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    cases = sorted(p for p in (SHARED / "zoo").glob("*") if not args.names or p.name in args.names)
    if not cases:
        skip("the exports of ../shared/zoo are not here")
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            one_model(case, tally, engine, pathlib.Path(folder))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
