"""Reports: the page's figures equal the JSON's, which equal what the archive and the outputs have; nothing is loaded; same bytes twice; hostile names stay text.

MiniLM needs its weights: models/fetch_minilm. The rest runs without.
"""
import html.parser, json, pathlib, re, shutil, tempfile
from common import MODELS, Broken, Engine, Tally, compile_model, need, quern, rel_l2

need("tract", "numpy", "onnx")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HOSTILE = "</script><script>alert(1)</script>&\"'\\\x02\x1b\x7f<!--\u202e${x}"


class Page(html.parser.HTMLParser):
    """Rows of the table of layers by field, the embedded data, tags and attributes that were seen."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.rows, self.data, self.tags, self.attributes, self.stack = [], "", set(), [], []
        self.cell = self.script = self.svg_text = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.add(tag)
        self.attributes += attributes.items()
        if tag == "tr":
            self.rows.append({})
            self.cell = None
        elif tag == "td":
            self.cell = attributes.get("data-k")
            if self.cell:
                self.rows[-1][self.cell] = ""
        elif tag == "script":
            self.script = attributes.get("type", "javascript")

    def handle_endtag(self, tag):
        if tag in ("tr", "table"):
            self.cell = None
        elif tag == "script":
            self.script = None

    def handle_data(self, text):
        if self.script == "application/json":
            self.data += text
        elif self.cell:
            self.rows[-1][self.cell] += text

    def layers(self):
        return [r for r in self.rows if "name" in r]


def shown(text):
    """A name as the page shows it."""
    return "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else "\u2421" if c == "\x7f" else "\ufffd" if 0x80 <= ord(c) < 0xa0 else c for c in text)


def size(n):
    return f"{n} B" if n < 1e4 else f"{n / 1e3:.1f} kB" if n < 1e6 else f"{n / 1e6:.1f} MB" if n < 1e9 else f"{n / 1e9:.2f} GB"


def figure(layer, key, form):
    if key not in layer:
        return "–"
    return "exact" if layer[key] is None else form % layer[key]


def percent(layer):
    v = layer.get("share")
    return "–" if v is None else "<0.1 %" if 0 < v < 0.0005 else "%.1f %%" % (100 * v)


def expected(i, l, executed):
    row = {"index": str(i), "block": "–" if l["block"] < 0 else str(l["block"]), "role": ("cross " if l["cross"] else "") + l["role"], "name": shown(l["name"]),
           "shape": "×".join(map(str, l["shape"])), "weightBits": str(l["weightBits"]), "actBits": "float" if l["actBits"] > 16 else str(l["actBits"]), "form": l["form"],
           "bytesBefore": size(l["bytesBefore"]), "bytesAfter": size(l["bytesAfter"]), "weightSqnrDb": figure(l, "weightSqnrDb", "%.1f"), "actScale": figure(l, "actScale", "%.3g"),
           "scales": "%.2e – %.2e" % (l["scaleMin"], l["scaleMax"]) if "scaleMin" in l else "–"}
    if executed:
        row |= {"share": percent(l), "cosine": figure(l, "cosine", "%.5f"), "sqnrDb": figure(l, "sqnrDb", "%.1f"), "ownSqnrDb": figure(l, "ownSqnrDb", "%.1f")}
    return row


def same_figures(page_path, json_path):
    text = page_path.read_text(encoding="utf-8")
    page, report = Page(text), json.loads(json_path.read_text(encoding="utf-8"))
    if json.loads(page.data) != report:
        raise Broken("the page's data is not the JSON report")
    rows, layers = page.layers(), report["layers"]
    if len(rows) != len(layers):
        raise Broken(f"{len(rows)} rows for {len(layers)} layers")
    for i, (row, layer) in enumerate(zip(rows, layers)):
        for key, value in expected(i, layer, report["measured"]["executed"]).items():
            if row.get(key) != value:
                raise Broken(f"layer {i}, {key}: the page has {row.get(key)!r}, the JSON {value!r}")
        if not row["origin"].startswith(layer["origin"]):
            raise Broken(f"layer {i}: origin {row['origin']!r}")
    loads = [(k, v) for k, v in page.attributes if k in ("src", "href", "srcset", "action", "data", "xlink:href", "poster") or k.startswith("on")]
    foreign = re.findall(r"(?:https?:)?//[a-z0-9]|url\(|@import", re.sub(r"<code[^>]*>.*?</code>", "", text.split('<script type="application/json"')[0]))
    return not loads and not foreign and not page.tags & {"link", "img", "iframe", "object", "embed"}, f"{len(rows)} layers, {len(text) // 1000} kB, nothing loaded {loads} {foreign[:3]}"


def run(*command):
    done = quern(*command)
    if done.returncode:
        raise Broken(done.stderr[-500:])


def both(folder, model, *flags, command="compile"):
    out = []
    for kind in ("html", "json"):
        path = folder / f"report.{kind}"
        if command == "compile":
            compile_model(model, folder / "a.nnef.tar", *flags, "--threads", "1", "--report", path)
        else:
            run(command, model, *flags, "--threads", "1", "--report", path)
        out.append(path)
    return out


def consistent(report):
    """Sums that have to agree."""
    groups, layers, sizes = report["bytes"], report["layers"], report["sizes"]
    if sum(g["after"] for g in groups) != sizes["weightsAfter"] or sum(g["layers"] for g in groups) != len(layers):
        raise Broken("the groups are not all bytes")
    if abs(sum(l.get("share", 0) for l in layers) - 1) > 1e-4:
        raise Broken(f"shares sum to {sum(l.get('share', 0) for l in layers)}")
    return True


def few(folder, source, count=2):
    """The first samples of a folder: a report runs each many times."""
    to = folder / f"{source.parent.name}-{source.name}"
    if not to.exists():
        to.mkdir()
        for path in sorted(source.glob("*.npz"))[:count]:
            shutil.copy(path, to)
    return to


def bytellama(folder):
    flags = ["--calib", few(folder, MODELS / "bytellama/calib"), "--bits", "ffn=4,head=8,value=8", "--act-bits", "8", "--method", "0"]
    page, data = both(folder, MODELS / "bytellama/model.onnx", *flags)
    first = page.read_bytes()
    compile_model(MODELS / "bytellama/model.onnx", folder / "a.nnef.tar", *flags, "--threads", "2", "--report", page)
    report = json.loads(data.read_text())
    good, detail = same_figures(page, data)
    archive = (folder / "a.nnef.tar").stat().st_size
    ratio = report["measured"]["errorAlone"] / report["measured"]["errorTogether"]
    return (good and consistent(report) and page.read_bytes() == first and report["sizes"]["archiveBytes"] == archive and 0.5 < ratio < 2,
            f"{detail}; same bytes with two threads {page.read_bytes() == first}; alone : together {ratio:.3f}")


def chain(path, names, width=64):
    """Three layers; the second is given noise by the test through its width."""
    rng = np.random.default_rng(3)
    nodes, inits, x = [], [], "x"
    for i, name in enumerate(names):
        inits.append(numpy_helper.from_array((rng.standard_normal((width, width)) / width ** 0.5).astype(np.float32), f"w{i}{name}"))
        nodes += [helper.make_node("MatMul", [x, f"w{i}{name}"], [f"h{i}{name}"], f"{name}{i}"), helper.make_node("Relu", [f"h{i}{name}"], [f"y{i}{name}"], f"r{i}")]
        x = f"y{i}{name}"
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])], [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    np.savez(path.with_suffix(".npz"), x=rng.standard_normal((40, width)).astype(np.float32))


def shares_against_the_engine(engine, folder):
    """Each layer alone in the real engine: its part of the outputs' squared error is the share that the report gives."""
    model, sample = folder / "chain.onnx", folder / "chain.npz"
    chain(model, ["a/L", "b/L", "c/L"])
    names, x = ["a/L0", "b/L1", "c/L2"], dict(np.load(sample))
    def run(pins):
        compile_model(model, folder / "c.nnef.tar", "--embedding-bits", "32", *[f for n in names for f in ("--layer", f"{n}={pins.get(n, 32)}")])
        return engine.run(folder / "c.nnef.tar", x)[0]
    exact, widths = run({}), {"a/L0": 8, "b/L1": 4, "c/L2": 3}
    alone = [rel_l2(run({n: widths[n]}), exact) ** 2 for n in names]
    report = folder / "c.json"
    compile_model(model, folder / "c.nnef.tar", "--calib", sample, *[f for n in names for f in ("--layer", f"{n}={widths[n]}")], "--report", report)
    r = json.loads(report.read_text())
    got, want = [l["share"] for l in r["layers"]], [a / sum(alone) for a in alone]
    whole = rel_l2(engine.run(folder / "c.nnef.tar", x)[0], exact) ** 2
    return (max(abs(a - b) for a, b in zip(got, want)) < 2e-3 and abs(r["measured"]["errorTogether"] / whole - 1) < 1e-2,
            f"report {np.round(got, 4)}, engine {np.round(want, 4)}; all together {r['measured']['errorTogether']:.4g} and {whole:.4g}")


def shares_beside_logits(engine, folder):
    """A layer that leads to another output than the logits has its share of the damage there."""
    model, sample, rng = folder / "two.onnx", folder / "two.npz", np.random.default_rng(4)
    names = ["trunk", "logits", "pooled"]
    inits = [numpy_helper.from_array((rng.standard_normal((64, 64)) / 8).astype(np.float32), f"w{n}") for n in names]
    nodes = [helper.make_node("MatMul", ["x", "wtrunk"], ["t"], "trunk"), helper.make_node("Relu", ["t"], ["r"], "r"), helper.make_node("MatMul", ["r", "wlogits"], ["y"], "logits"),
             helper.make_node("MatMul", ["r", "wpooled"], ["p"], "pooled"), helper.make_node("Tanh", ["p"], ["z"], "z")]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "yz"]
    graph = helper.make_graph(nodes, "two", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])], outputs, inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), model)
    x = {"x": rng.standard_normal((40, 64)).astype(np.float32)}
    np.savez(sample, **x)
    def run(*narrow):
        compile_model(model, folder / "two.nnef.tar", *[f for n in names for f in ("--layer", f"{n}={4 if n in narrow else 32}")])
        return engine.run(folder / "two.nnef.tar", x)
    exact = run()
    alone = [sum(rel_l2(a, b) ** 2 for a, b in zip(run(n), exact)) for n in names]
    compile_model(model, folder / "two.nnef.tar", "--calib", sample, "--report", folder / "two.json")
    got, want = [l["share"] for l in json.loads((folder / "two.json").read_text())["layers"]], [a / sum(alone) for a in alone]
    return max(abs(a - b) for a, b in zip(got, want)) < 2e-3, f"report {np.round(got, 4)}, engine {np.round(want, 4)}"


def hostile(folder):
    model = folder / "hostile.onnx"
    chain(model, [HOSTILE] * 3)
    raw = model.read_bytes().replace(b"${x}", b"\xff\xc0\xed\x80")  # no UTF-8
    (folder / "bytes.onnx").write_bytes(raw)
    details = []
    for name in ("hostile.onnx", "bytes.onnx"):
        flags = ["--calib", folder / "hostile.npz"]
        try:
            good, detail = same_figures(*both(folder, folder / name, *flags))
        except Broken as error:
            if name == "hostile.onnx" or "UTF-8" not in str(error):
                raise
            good, detail = True, "refused by the loader"
        text = (folder / "report.html").read_text(encoding="utf-8")
        good = good and text.count("<script") == 2 and text.count("</script") == 2 and "alert(1)</script>" not in text
        details.append(f"{name} {detail}")
        if not good:
            return False, "; ".join(details)
    return True, "; ".join(details)


def tuned(folder):
    """The curve that an allocation holds is in the report, number by number."""
    model, bits = folder / "chain.onnx", folder / "bits.json"
    compile_model(model, folder / "a.nnef.tar", "--layer", "a/L0=4", "--save-bits", bits)
    allocation = json.loads(bits.read_text())
    curve = [{"bytes": 9000 + 1000 * i, "bits": 4.5 + i / 4, "error": 0.1 * 0.7 ** i} | ({"changed": "a/L0", "weightBits": 8} if i else {}) for i in range(20)]
    curve[7]["measured"] = 0.011
    allocation["tuning"] = {"measure": "cosine", "samples": 3, "chosen": {"bytes": 16000, "bits": 6.25, "error": 0.008, "measured": 0.011}, "curve": curve}
    bits.write_text(json.dumps(allocation))
    page, data = both(folder, model, "--load-bits", bits)
    good, detail = same_figures(page, data)
    text = page.read_text(encoding="utf-8")
    good = good and json.loads(data.read_text())["tuning"] == allocation["tuning"] and text.count('class="curve-dot"') == 21 and "The ring is the choice." in text
    allocation["tuning"]["chosen"]["error"] = 0.02  # more than weights alone: that of activations
    bits.write_text(json.dumps(allocation))
    page, _ = both(folder, model, "--load-bits", bits)
    return good and "above the curve of the weights" in page.read_text(encoding="utf-8"), detail


def tuning(folder):
    """What a tuning reports is what the compile of its allocation reports, but for the archive."""
    model, bits, samples = MODELS / "bytellama/model.onnx", folder / "t.json", few(folder, MODELS / "bytellama/calib")
    page, data = both(folder, model, "-o", bits, "--max-bits", "5.5", "--state", folder / "state", "--calib", samples, command="tune")
    good, detail = same_figures(page, data)
    tuned, allocation = json.loads(data.read_text()), json.loads(bits.read_text())
    _, data = both(folder, model, "--load-bits", bits, "--calib", samples)
    compiled = json.loads(data.read_text())
    same = all(compiled[key] == tuned[key] for key in ("tuning", "outputs", "bytes", "measured")) and [l["share"] for l in tuned["layers"]] == [l["share"] for l in compiled["layers"]]
    return good and consistent(tuned) and same and tuned["tuning"] == allocation["tuning"] and "archive" not in tuned, f"{detail}; as the compile reports {same}"


def without_samples(folder):
    page, data = both(folder, MODELS / "bytellama/model.onnx")
    report = json.loads(data.read_text())
    good, detail = same_figures(page, data)
    return good and not report["measured"]["executed"] and "share" not in report["layers"][0] and any("--calib" in a.get("flags", "") for a in report["advice"]), detail


def evaluated(folder):
    samples = few(folder, MODELS / "bytellama/calib")
    page, data = both(folder, MODELS / "bytellama/model.onnx", "--eval", samples, command="eval")
    report = json.loads(data.read_text())
    done = json.loads(quern("eval", MODELS / "bytellama/model.onnx", "--eval", samples, "--threads", "1", "--json").stdout)
    by_name = {l["name"]: l for l in done["layers"]}
    agree = all(abs(l["sqnrDb"] - by_name[l["name"]]["sqnrDb"]) < 1e-3 and abs(l["cosine"] - by_name[l["name"]]["cosine"]) < 1e-5 for l in report["layers"] if l["sqnrDb"] is not None)
    good, detail = same_figures(page, data)
    return good and agree and consistent(report), f"{detail}; as quern eval says {agree}"


def minilm(folder):
    page, data = both(folder, MODELS / "minilm/minilm.onnx", "--calib", few(folder, MODELS / "minilm/calib"), "--bits", "8", "--act-bits", "8")
    good, detail = same_figures(page, data)
    return good and consistent(json.loads(data.read_text())), detail


def main():
    tally, engine = Tally(), Engine()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tally.attempt("byte llama, compiled", lambda: bytellama(folder))
        tally.attempt("byte llama, without samples", lambda: without_samples(folder))
        tally.attempt("byte llama, evaluated", lambda: evaluated(folder))
        tally.attempt("shares of a chain, in the engine", lambda: shares_against_the_engine(engine, folder))
        tally.attempt("shares beside the logits", lambda: shares_beside_logits(engine, folder))
        tally.attempt("a tuned allocation", lambda: tuned(folder))
        tally.attempt("byte llama, tuned", lambda: tuning(folder))
        tally.attempt("hostile names", lambda: hostile(folder))
        if (MODELS / "minilm/model.safetensors").exists():
            tally.attempt("MiniLM, int8", lambda: minilm(folder))
        else:
            print("skip  MiniLM: its weights are not there (models/fetch_minilm)")
    engine.close()
    tally.end()


if __name__ == "__main__":
    main()
