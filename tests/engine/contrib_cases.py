#!/usr/bin/env python3
"""Fused operators, mostly of com.microsoft, against onnxruntime: float execution (`quern run`) and the float archive in tract.

usage: QUERN=build/quern contrib_cases.py [--only TEXT]
Each case is a small graph with dynamic dims where the operator has them; the graphs are in contrib_*.py.
"""
import argparse, json, pathlib, tempfile
from common import FLOAT, Broken, Engine, Tally, compile_model, cosine, need, quern, rel_l2

need("onnx", "onnxruntime", "tract", "numpy")
import numpy as np
import onnx
import contrib_attention, contrib_refused, contrib_roles, contrib_small, contrib_standard  # noqa: F401: they fill the tables
from contrib_graph import CASES, REFUSED, ROLES, reference

TOLERANCE = 2e-5  # relative L2, float against float
TAGGED = ("query", "key", "value", "qkv", "output", "ffn", "head", "embedding")
Q4_COSINE = 0.9  # of random weights, whose errors do not average out


def worst(got, want):
    if len(got) != len(want):
        raise Broken(f"{len(got)} outputs, expected {len(want)}")
    return max(rel_l2(g, w) for g, w in zip(got, want, strict=True))


def written(folder, name, made):
    model, feed = made[:2]
    onnx.save(model, folder / f"{name}.onnx")
    np.savez(folder / f"{name}.npz", **feed)
    want = made[2](feed) if len(made) > 2 else reference(model, feed)
    return folder / f"{name}.onnx", folder / f"{name}.npz", feed, want


def run_float(folder, name, engine):
    path, samples, feed, want = written(folder, name, CASES[name]())
    done = quern("run", path, "--input", samples, "-o", folder / "out.npz")
    if done.returncode:
        raise Broken(done.stderr.strip()[-300:])
    run = worst(list(np.load(folder / "out.npz").values()), want)
    archive = folder / f"{name}.nnef.tgz"
    compile_model(path, archive, *FLOAT)
    tract = worst(engine.run(archive, feed), want)
    return run <= TOLERANCE and tract <= TOLERANCE, f"run {run:.1e}, tract {tract:.1e}"


def run_roles(folder, name, engine):
    path, _, feed, want = written(folder, name, ROLES[name]())
    done = quern("inspect", path, "--json")
    if done.returncode:
        raise Broken(done.stderr.strip()[-300:])
    got = {layer["weight"]: layer["role"] for layer in json.loads(done.stdout)["layers"]}
    weights = [c.name for c in onnx.load(path).graph.initializer if not c.name.endswith(("scales", "bias"))]
    expected = {w: w.split(".")[0] for w in weights if w.split(".")[0] in TAGGED}
    expected |= {w: None for w in weights if w in ("cos", "sin")}  # no layer's, so never stored in few bits
    wrong = [f"{w} has the role {got.get(w)}" for w, role in expected.items() if got.get(w) != role]
    if wrong:
        raise Broken("; ".join(wrong))
    archive = folder / f"{name}.nnef.tgz"
    compile_model(path, archive, *FLOAT)
    exact = worst(engine.run(archive, feed), want)
    compile_model(path, archive)
    q4 = cosine(engine.run(archive, feed)[0], want[0])
    return exact <= TOLERANCE and q4 >= Q4_COSINE, f"{len(expected)} roles, tract {exact:.1e}, Q4_0 cosine {q4:.4f}"


def run_refused(folder, name):
    make, words = REFUSED[name]
    onnx.save(make()[0], folder / f"{name}.onnx")
    done = quern("compile", folder / f"{name}.onnx", "-o", folder / f"{name}.nnef.tgz")
    lacking = [w for w in words if w not in done.stderr]
    return done.returncode == 1 and not lacking, f"exit {done.returncode}, lacking {lacking}: {done.stderr.strip()[-200:]}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--only", default="")
    only = ap.parse_args().only
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name in [c for c in CASES if only in c]:
            tally.attempt(name, lambda: run_float(folder, name, engine))
        for name in [c for c in ROLES if only in c]:
            tally.attempt(name, lambda: run_roles(folder, name, engine))
        for name in [c for c in REFUSED if only in c]:
            tally.attempt(name, lambda: run_refused(folder, name))
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
