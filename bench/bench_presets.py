"""The presets, and other choices of the roles that get 8 bits, on families of models: bench_presets.py QUERN MODEL.onnx|FOLDER...

A FOLDER holds model.onnx and inputs.npz, whose shapes and ranges samples are drawn from anew (8 to calibrate on, 8 to evaluate on); beside a
MODEL.onnx are the folders calib and, or else calib again in halves, eval. Prints for each choice the error of the outputs (1 - cosine, mean of outputs and samples, in
`quern eval`'s arithmetic) over that of `small`, and the size of the archive over that of `small`: one line a model, and the geometric means.
"""
import json, math, pathlib, subprocess, sys, tempfile

import numpy as np

CHOICES = {
    "small": ["--preset", "small"],
    "tables": ["--preset", "small", "--embedding-bits", "8"],
    "value, head": ["--preset", "small", "--embedding-bits", "8", "--bits", "value=8,head=8"],
    "key, value, head": ["--preset", "small", "--embedding-bits", "8", "--bits", "key=8,value=8,head=8"],
    "query, key, head": ["--preset", "small", "--embedding-bits", "8", "--bits", "query=8,key=8,head=8"],
    "balanced": ["--preset", "balanced"],
    "attention, head": ["--preset", "small", "--embedding-bits", "8", "--bits", "query=8,key=8,value=8,output=8,head=8"],
    "ffn": ["--preset", "small", "--embedding-bits", "8", "--bits", "ffn=8"],
    "accurate": ["--preset", "accurate"],
}


def draw(source, folder, count, rng):
    folder.mkdir()
    like = dict(np.load(source))
    for i in range(count):
        sample = {}
        for name, x in like.items():
            if np.issubdtype(x.dtype, np.integer) and x.min() != x.max() and "position" not in name:
                sample[name] = rng.integers(x.min(), x.max() + 1, x.shape).astype(x.dtype)
            elif np.issubdtype(x.dtype, np.floating):
                sample[name] = rng.normal(x.mean(), x.std(), x.shape).astype(x.dtype)
            else:
                sample[name] = x
        np.savez(folder / f"sample_{i:02}.npz", **sample)
    return folder


def halves(source, folder):
    folder.mkdir()
    files = sorted(source.glob("*.npz"))
    for name, part in (("calib", files[::2]), ("eval", files[1::2])):
        (folder / name).mkdir()
        for f in part:
            (folder / name / f.name).write_bytes(f.read_bytes())
    return folder / "calib", folder / "eval"


def samples_of(path, scratch):
    if path.is_dir():
        rng = np.random.default_rng(7)
        return path / "model.onnx", draw(path / "inputs.npz", scratch / "calib", 8, rng), draw(path / "inputs.npz", scratch / "eval", 8, rng)
    if (path.parent / "eval").is_dir():
        return path, path.parent / "calib", path.parent / "eval"
    return (path, *halves(path.parent / "calib", scratch / "halves"))


def measure(quern, model, calib, held_out, choice, scratch):
    options = [model, *choice, "--calib", calib, "--quiet", "--json"]
    outputs = json.loads(subprocess.check_output([quern, "eval", *options, "--eval", held_out]))["outputs"]
    archive = scratch / "out.nnef.tgz"
    subprocess.check_output([quern, "compile", *options, "-o", archive])
    errors = [1 - o["cosine"] for o in outputs if o["cosine"] is not None]
    return max(sum(errors) / len(errors), 1e-9), archive.stat().st_size


quern, *paths = sys.argv[1:]
print("model | " + " | ".join(CHOICES))
logs = {name: [] for name in CHOICES}
for path in map(pathlib.Path, paths):
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        model, calib, held_out = samples_of(path, scratch)
        rows = {name: measure(quern, model, calib, held_out, choice, scratch) for name, choice in CHOICES.items()}
    least, size = rows["small"]
    for name, (error, n) in rows.items():
        logs[name].append((math.log(error / least), math.log(n / size)))
    print(f"{path.name if path.is_dir() else path.parent.name} ({least:.2g}) | " + " | ".join(f"{e / least:.3f} {n / size:.2f}" for e, n in rows.values()), flush=True)
means = {name: [math.exp(sum(x[k] for x in v) / len(v)) for k in (0, 1)] for name, v in logs.items()}
print("mean | " + " | ".join(f"{e:.3f} {n:.2f}" for e, n in means.values()))
