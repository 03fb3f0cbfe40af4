#!/usr/bin/env python3
"""`quern tensor` against rules written here in numpy, and its .dat files in tract.

usage: QUERN=build/quern tensor_cases.py [--no-tract]
Each storage form is written from the same array; the file must be what numpy says byte for byte, and the engine must load it and compute with the values
that it stands for. Needs: pip install tract numpy
"""
import argparse, json, os, struct, sys, tempfile
from common import need, quern

need("numpy")
import numpy as np

HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
BLOCK_BITS, TRACT = 0xFFFFFFFF, 0x5452
MATMUL_TOLERANCE = 1e-5  # relative L2


def header(n, dims, bits, item, vendor=0):
    dims = list(dims)
    return (b"\x4e\xef\x01\x00" + struct.pack("<II", n, len(dims)) + struct.pack("<8I", *(dims + [0] * (8 - len(dims))))
            + struct.pack("<IHH", bits, item, vendor) + bytes(76))


def signed_q4_0(a, legacy=False):
    """ggml's rule: scale from the first value of the largest magnitude, codes by its f32 reciprocal."""
    v = a.reshape(-1, 32).astype(np.float32)
    d = (v[np.arange(len(v)), np.abs(v).argmax(1)] / np.float32(-8)).astype(np.float32)
    inverse = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)
    q = np.minimum(15, (v * inverse[:, None] + np.float32(8.5)).astype(np.int8)).astype(np.uint8)
    h = np.where(d == 0, np.float16(-0.0), d.astype(np.float16))
    nibbles = q[:, 0::2] | q[:, 1::2] << 4 if legacy else q[:, :16] | q[:, 16:] << 4
    raw = np.concatenate([h.view(np.uint8).reshape(-1, 2), nibbles], 1).tobytes()
    values = (q.astype(np.float32) - 8) * h.astype(np.float32)[:, None]
    return header(len(raw), a.shape, BLOCK_BITS, 0x2040 if legacy else 0x3040, TRACT) + raw, values.reshape(a.shape)


def q8_1(a):
    v = a.reshape(-1, 32).astype(np.float32)
    d = (np.abs(v).max(1) / np.float32(127)).astype(np.float32)
    q = np.rint(v / np.where(d == 0, 1, d)[:, None]).astype(np.int8)
    h, s = d.astype(np.float16), (q.astype(np.float32).sum(1) * d).astype(np.float16)
    raw = np.concatenate([h.view(np.uint8).reshape(-1, 2), s.view(np.uint8).reshape(-1, 2), q.view(np.uint8)], 1).tobytes()
    return header(len(raw), a.shape, BLOCK_BITS, 0x3080, TRACT) + raw, (q * h.astype(np.float32)[:, None]).reshape(a.shape)


def plain(a, item):
    return header(a.nbytes, a.shape, a.dtype.itemsize * 8, item) + a.tobytes()


def i8(a):
    rows = a.reshape(len(a), -1)
    s = np.abs(rows).max(1) / np.float32(127)
    q = np.rint(rows / s[:, None]).astype(np.int8)
    scale = s.reshape([-1] + [1] * (a.ndim - 1)).astype(np.float32)
    return plain(q.reshape(a.shape), 4), plain(scale, 0), q.reshape(a.shape).astype(np.float32)


def tensor(folder, a, *flags):
    np.save(folder + "/in.npy", a)
    p = quern("tensor", folder + "/in.npy", "-o", folder + "/w.dat", "--json", *flags)
    if p.returncode:
        raise RuntimeError(p.stderr.strip())
    return json.loads(p.stdout), open(folder + "/w.dat", "rb").read()


def in_tract(folder, body, inputs):
    import tract
    for name in ("in.npy", "w.scale.dat"):
        if os.path.exists(f"{folder}/{name}"):
            os.remove(f"{folder}/{name}")
    open(folder + "/graph.nnef", "w").write(HEAD + f"graph g(x) -> (y) {{\n {body}\n}}\n")
    return tract.nnef().with_tract_extra().load(folder).into_runnable().run(inputs)[0].to_numpy()


def cases():
    r = np.random.default_rng(0)
    weights = {"normal": r.standard_normal((48, 96)) * 0.05, "ties": r.integers(-4, 5, (48, 96)), "sparse": (r.random((48, 96)) < 0.03) * r.standard_normal((48, 96))}
    for name, w in weights.items():
        w = w.astype(np.float32)
        for form, flags, (data, values) in (("q4_0 signed", ["--format", "q4_0", "--rounding", "signed"], signed_q4_0(w)),
                                            ("q4_0-legacy signed", ["--format", "q4_0-legacy", "--rounding", "signed"], signed_q4_0(w, True)),
                                            ("q8_1", ["--format", "q8_1"], q8_1(w)),
                                            ("f16", ["--format", "f16"], (plain(w.astype(np.float16), 0), w.astype(np.float16).astype(np.float32))),
                                            ("f32", ["--format", "f32"], (plain(w, 0), w))):
            yield f"{form}, {name}", w, flags, data, values
    w = weights["normal"].astype(np.float32)
    data, _, values = i8(w)
    yield "i8, normal", w, ["--format", "i8"], data, values


def engine_error(folder, form, w, values):
    """Relative L2 of what the engine computes with the file against numpy with the values."""
    n, k = w.shape
    x = np.random.default_rng(1).standard_normal((1, 5, k)).astype(np.float32)
    variable = f"w = variable<scalar>(label='w', shape=[{n},{k}]);"
    if form.startswith(("q8_1", "i8")):  # no f32 matmul kernel takes these: gather from one, cast the other
        x = np.arange(n, dtype=np.int64)[::-1].copy().reshape(1, n) if form.startswith("q8_1") else np.zeros((n, k), np.float32)
        body = (f"x = external<integer>(shape=[1,{n}]); {variable} y = tract_core_gather(w, x, axis=0, datum_type='f32');" if form.startswith("q8_1")
                else f"x = external<scalar>(shape=[{n},{k}]); {variable} y = x + tract_core_cast(w, to='f32');")
        want = values[x] if form.startswith("q8_1") else values
    else:
        body = f"x = external<scalar>(shape=[1,5,{k}]); {variable} y = tract_core_einsum([x, w], expr='abk,nk->abn', acc='f32', output='');"
        want = x @ values.T
    got = in_tract(folder, body, [x])
    return np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--no-tract", action="store_true")
    engine = not ap.parse_args().no_tract
    if engine:
        need("tract")
    bad = 0
    for name, w, flags, data, values in cases():
        with tempfile.TemporaryDirectory() as folder:
            try:
                summary, got = tensor(folder, w, *flags)
                verdict = "same bytes" if got == data else "DIFFERENT bytes"
                ok = got == data and summary["shape"] == list(w.shape)
                if name.startswith("i8"):
                    scales = open(folder + "/w.scale.dat", "rb").read()
                    ok = ok and scales == i8(w)[1]
                    verdict += ", same scales" if scales == i8(w)[1] else ", DIFFERENT scales"
                if engine:
                    error = engine_error(folder, name, w, values)
                    ok = ok and error < MATMUL_TOLERANCE
                    verdict += f", in tract rel_l2 {error:.1e}"
            except Exception as e:
                ok, verdict = False, f"FAIL {e}"
        bad += not ok
        print(f"{name:28s} {verdict}")
    print(f"{bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
