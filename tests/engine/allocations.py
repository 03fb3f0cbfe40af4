"""Allocation and configuration files through the command: save, load and compile give the same bytes; names mean what the user sees; slips are refused."""
import json, pathlib, shutil, sys, tempfile
from archives import digest
from common import MODELS, ROOT, SHARED, Broken, Tally, compile_model, need, quern

need("onnx", "numpy")
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

MODEL = MODELS / "bytellama" / "model.onnx"
Q_PROJ, GATE = "/m/model/layers.0/self_attn/q_proj/MatMul", "/m/model/layers.1/mlp/gate_proj/MatMul"
ODD = ['quo"te', "back\\slash", "sp ace", "über/層.🌾", "reg[ex].*(a)?+$", "post_quant_conv", "n" * 300, "{}", "trailing="]


def chain(path, names, weights=None, gemm=(), width=64):
    """x -> a product with 64 x 64 for each name, one after the other."""
    nodes, inits, x = [], [], "x"
    for i, name in enumerate(names):
        w = weights[i] if weights else f"{name}.weight"
        inits.append(numpy_helper.from_array(np.random.default_rng(i).standard_normal((width, width)).astype(np.float32) / 8, w))
        nodes.append(h.make_node("Gemm" if name in gemm else "MatMul", [x, w], [f"y{i}"], name=name))
        x = f"y{i}"
    ends = [h.make_tensor_value_info("x", T.FLOAT, ["n", width])], [h.make_tensor_value_info(x, T.FLOAT, ["n", width])]
    model = h.make_model(h.make_graph(nodes, "g", *ends, inits), opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def few_samples(folder):
    """Two short samples of the byte llama, so that calibration takes a moment."""
    (folder / "calib").mkdir(exist_ok=True)
    for i in range(2):
        ids = np.random.default_rng(i).integers(0, 255, (1, 20 + i), dtype=np.int64)
        np.savez(folder / "calib" / f"s{i}.npz", input_ids=ids, attention_mask=np.ones_like(ids))
    return folder / "calib"


def put(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def layers_of(path):
    return {l["name"]: l for l in json.loads(path.read_text(encoding="utf-8"))["layers"]}


def fails(*args, says, code=1):
    done = quern(*args)
    for text in says:
        if done.returncode != code or text not in done.stderr:
            raise Broken(f"{[str(a)[-60:] for a in args]}: exit {done.returncode}, '{done.stderr.strip()[:500]}' should say '{text}'")


def validate(path):
    try:
        import jsonschema
    except ImportError:
        return
    schema = json.loads((ROOT / "schema" / "allocation.schema.json").read_text(encoding="utf-8"))
    try:
        jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema)
    except jsonschema.ValidationError as error:
        raise Broken(f"the file is not what schema/allocation.schema.json says: {error.message[:300]}")


def save_load(folder, model, flags, again=()):
    """The archive of a compile and the one of its allocation alone."""
    compile_model(model, folder / "a", *flags, "--save-bits", folder / "a.json", "--threads", 1)
    validate(folder / "a.json")
    compile_model(model, folder / "b", "--load-bits", folder / "a.json", "--save-bits", folder / "b.json", *again)
    compile_model(model, folder / "c.nnef.tar", "--load-bits", folder / "b.json", "--save-bits", folder / "c.json", *again)
    first, second = layers_of(folder / "a.json"), layers_of(folder / "b.json")
    for name in first:
        first[name]["origin"] = "loaded" if first[name]["origin"] != "fallback" else "fallback"
    same = digest(folder / "a") == digest(folder / "b") and (folder / "b.json").read_bytes() == (folder / "c.json").read_bytes() and first == second
    return same, f"{len(first)} layers"


def with_rounding(folder):
    """Weights that samples made are not in the file: it says so, and with the samples they come out the same."""
    model = chain(folder / "m.onnx", ["/a/MatMul", "/b/MatMul"])
    samples = folder / "s"
    samples.mkdir()
    for i in range(3):
        np.savez(samples / f"{i}.npz", x=np.random.default_rng(i).standard_normal((40, 64)).astype(np.float32))
    for rounding in ("importance", "gptq"):
        room = folder / rounding
        room.mkdir()
        file = room / "a.json"
        compile_model(model, room / "a", "--layer", "a=4/8", "--layer", "b=4", "--rounding", rounding, "--calib", samples, "--save-bits", file)
        if json.loads(file.read_text())["rounding"] != rounding:
            return False, "the file does not tell the rounding"
        fails("compile", model, "-o", room / "b", "--load-bits", file, says=[rounding, "--calib", "a.json"])
        compile_model(model, room / "b", "--load-bits", file, "--calib", samples)
        compile_model(model, room / "c", "--load-bits", file, "--rounding", "mse")
        if not digest(room / "a") == digest(room / "b") != digest(room / "c"):
            return False, f"{rounding}: other bytes"
    return True, "importance, gptq"


def with_errors(folder):
    """An evaluation saves what each layer cost; loading keeps it while the widths stay."""
    model = chain(folder / "m.onnx", ["/a/MatMul", "/b/MatMul"])
    np.savez(folder / "s.npz", x=np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32))
    done = quern("eval", model, "--eval", folder / "s.npz", "--layer", "a=4", "--layer", "b=8", "--save-bits", folder / "a.json")
    if done.returncode:
        raise Broken(done.stderr.strip()[-300:])
    validate(folder / "a.json")
    compile_model(model, folder / "b", "--load-bits", folder / "a.json", "--layer", "b=4", "--save-bits", folder / "b.json")
    first, second = layers_of(folder / "a.json"), layers_of(folder / "b.json")
    a, b = first["/a/MatMul"]["error"], first["/b/MatMul"]["error"]
    kept = second["/a/MatMul"].get("error") == a and "error" not in second["/b/MatMul"]
    return kept and 0.9 < a["cosine"] < 1 and 10 < a["sqnrDb"] < 40 and a["largestError"] > 0 and set(b) <= set(a), f"{a}"


def fused(folder):
    model = SHARED / "zoo" / "gpt2-dyn" / "model.onnx"
    if not model.exists():
        return True, "not here"
    good, detail = save_load(folder, model, ["--bits", "key=8,value=3"])
    entry = next(l for l in layers_of(folder / "a.json").values() if l["role"] == "qkv")
    bits = {p["role"]: (p["weightBits"], p["rows"]) for p in entry["parts"]}
    return good and bits == {"query": (4, [[0, 64]]), "key": (8, [[64, 128]]), "value": (3, [[128, 192]])}, f"{detail}, {bits}"


def fingerprints(folder):
    """A copy, weights beside the model and any number of threads: the same model. One weight's bit, an attribute, another dim: another."""
    def of(model):
        compile_model(model, folder / "o", "--save-bits", folder / "f.json")
        return json.loads((folder / "f.json").read_text())["model"]["fingerprint"]

    base = chain(folder / "m.onnx", ["/a/MatMul", "/b/MatMul"])
    first, model = of(base), onnx.load(base)
    outside = folder / "outside"
    outside.mkdir()
    onnx.save(model, outside / "other name.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    same = [of(outside / "other name.onnx"), of(shutil.copyfile(base, folder / "copy.onnx"))]
    model = onnx.load(base)
    w = numpy_helper.to_array(model.graph.initializer[1]).copy()
    w[63, 63] = np.nextafter(w[63, 63], np.float32(9))
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(w, model.graph.initializer[1].name))
    onnx.save(model, folder / "weight.onnx")
    model = onnx.load(base)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    onnx.save(model, folder / "dim.onnx")
    others = [of(folder / "weight.onnx"), of(folder / "dim.onnx")]
    compile_model(base, folder / "o", "--save-bits", folder / "f.json", "--layer", "a=8")
    fails("compile", folder / "weight.onnx", "-o", folder / "p", "--load-bits", folder / "f.json", says=["f.json", "another model", first, others[0], "0 differences"])
    return set(same) == {first} and len({first, *others}) == 3, f"{first}"


def by_hand(folder):
    """A width edited by hand holds; what calibration it lacks is asked for by name, unless the scale is taken at run time."""
    samples = few_samples(folder)
    file = folder / "a.json"
    compile_model(MODEL, folder / "a", "--bits", 8, "--act-bits", 8, "--method", 0, "--calib", samples, "--save-bits", file)
    text = file.read_text(encoding="utf-8")
    value = json.loads(text)
    entry = next(l for l in value["layers"] if l["name"] == GATE)
    entry["weightBits"] = 4
    compile_model(MODEL, folder / "b", "--load-bits", put(folder / "b.json", value), "--save-bits", folder / "c.json")
    changed = layers_of(folder / "c.json")[GATE]
    if changed["weightForm"] != "q4_0" or changed["actScale"] != entry["actScale"]:
        return False, f"{changed}"
    entry["actBits"] = 4
    fails("compile", MODEL, "-o", folder / "d", "--load-bits", put(folder / "b.json", value), says=[GATE, "4 bits", "--calib"])
    compile_model(MODEL, folder / "d", "--load-bits", folder / "b.json", "--calib", samples, "--method", 0, "--save-bits", folder / "c.json")
    after = layers_of(folder / "c.json")
    if not after[GATE]["actScale"] > 4 * entry["actScale"] or after[Q_PROJ]["actScale"] != layers_of(file)[Q_PROJ]["actScale"]:
        return False, f"{after[GATE]}"
    value = json.loads(text)
    next(l for l in value["layers"] if l["name"] == GATE)["actBits"] = 7
    compile_model(MODEL, folder / "e", "--load-bits", put(folder / "b.json", value), "--dynamic-activations")
    fails("compile", MODEL, "-o", folder / "f", "--load-bits", file, "--layer", f"{GATE}=8/16", says=[GATE, "16 bits"])
    for wrong, words in (('"weightBits": 8', ['"weightBit": 8', "weightBit", "is missing"]), ('"actScale"', ['"actScal"', "actScal", "did you mean 'actScale'?"]),
                         ('"weightBits": 8', ['"weightBits": "8"', "weightBits", '"8"']), ('"i8"', ['"i9"', "i9", "did you mean 'i8'?"]),
                         ('"name": "/m', ['"name": "/n', "2 differences", "not in the file", "not in the model"])):
        fails("compile", MODEL, "-o", folder / "g", "--load-bits", put(folder / "b.json", text.replace(wrong, words[0], 1)), says=["b.json", *words[1:]])
    return not (folder / "g").exists(), "5 edits, 5 slips"


def precedence(folder):
    """Defaults, roles, loaded, layers of the configuration, layers of the command line, 16 bits."""
    names = [f"/m/model/layers.{i}/mlp/gate_proj/MatMul" for i in range(4)]
    compile_model(MODEL, folder / "o", "--bits", 6, "--save-bits", folder / "a.json")
    config = put(folder / "c.json", {"bit": {"mixedPrecisionApply": True, "ffnWeightBits": 5, "ffnActBits": 32, "queryActBits": 32, "keyActBits": 32, "valueActBits": 32,
        "outputActBits": 32, "headActBits": 32, "loadPath": str(folder / "a.json"), "savePath": str(folder / "b.json"),
        "layers": {"layers.1.mlp.gate_proj": {"weightBits": 7}, "layers.2.mlp.gate_proj": {"weightBits": 7}, "layers.3.mlp.gate_proj": {"weightBits": 7}},
        "weight16Bits": ["layers.3.mlp.gate_proj"]}})
    compile_model(MODEL, folder / "o", "--layer", "layers.2.mlp.gate_proj=3", "--config", config, "--layer", "layers.3.mlp.gate_proj=3")
    got = layers_of(folder / "b.json")
    widths = [(got[n]["weightBits"], got[n]["origin"]) for n in names if n in got]
    # a pin that is what the default is holds against roles
    compile_model(MODEL, folder / "o", "--bits", 8, "--layer", f"{names[0]}=4", "--save-bits", folder / "d.json")
    pinned = layers_of(folder / "d.json")
    good = widths == [(6, "loaded"), (7, "pin"), (3, "pin"), (16, "override")][: len(widths)] and len(widths) == 4
    return good and (pinned[names[0]]["weightBits"], pinned[names[1]]["weightBits"]) == (4, 8), f"{widths}"


def component_match(folder):
    """V47: layers.1 is not layers.11, in every place that takes a name."""
    model = chain(folder / "m.onnx", [f"/layers.{i}/MatMul" for i in range(12)])
    all_8 = ["--layer", "layers.*=8"]
    both = {"layers.*": {"weightBits": 8}, "layers.1.*": {"weight_bits": 16}}
    for flags in ([*all_8, "--weight-16bits", "layers.1"], [*all_8, "--layer", "layers.1=16"], [*all_8, "--layer", "/layers.1/MatMul=16"],
                  [*all_8, "--config", put(folder / "a.json", {"bit": {"weight16Bits": ["layers.1"]}})],
                  ["--config", put(folder / "b.json", {"bit": {"layers": both}})]):
        compile_model(model, folder / "o", *flags, "--save-bits", folder / "s.json")
        wide = [n for n, l in layers_of(folder / "s.json").items() if l["weightBits"] == 16]
        if wide != ["/layers.1/MatMul"]:
            return False, f"{flags}: {wide}"
    return True, "5 ways"


def matches_nothing(folder):
    """V48: misspelt names, roles, keys and widths are errors with the nearest name, and nothing is written."""
    model = chain(folder / "m.onnx", ["/layers.0/q_proj/MatMul"])
    out = ["compile", model, "-o", folder / "o"]
    fails(*out, "--config", put(folder / "a.json", {"bit": {"weight16Bits": ["/layers.0/q_porj/MatMul"]}}), says=["q_porj", "did you mean '/layers.0/q_proj/MatMul'?"])
    fails(*out, "--config", put(folder / "a.json", {"bit": {"layers": {"/layers.0/q_proj/MatMull": {"weightBits": 8}}}}), says=["q_proj/MatMull", "did you mean"])
    fails(*out, "--config", put(folder / "a.json", {"calibration": {"layerOverrides": {"actScaleMin": {"0.001": ["nowhere"]}}}}), says=["actScaleMin", "nowhere"])
    fails(*out, "--config", put(folder / "a.json", {"bit": {"qeuryWeightBits": 8}}), says=["a.json", "qeuryWeightBits", "did you mean 'queryWeightBits'?"])
    fails(*out, "--config", put(folder / "a.json", {"bit": {"queryWeightBits": 0}}), says=["a.json", "queryWeightBits", "cannot be 0", "1 or more"])
    fails(*out, "--config", put(folder / "a.json", "{bit}"), says=["a.json", "line 1"])
    fails(*out, "--config", folder / "absent.json", says=["absent.json"])
    fails(*out, "--bits", "qeury=8", says=["qeury"], code=2)
    compile_model(model, folder / "five", "--layer", "layers.0=5", "--save-bits", folder / "s.json")
    return not (folder / "o").exists() and layers_of(folder / "s.json")["/layers.0/q_proj/MatMul"]["weightForm"] == "i8", "8 mistakes; 5 bits are a width"


def names_of_the_user(folder):
    """V49: node, weight and module path all mean the layer, though Gemm is rewritten inside."""
    model = chain(folder / "m.onnx", ["/fc/Gemm", "/layers.0/q_proj/MatMul", "/layers.0/k_proj/MatMul"], ["fc.w", "onnx::MatMul_42", "onnx::MatMul_43"], gemm=["/fc/Gemm"])
    compile_model(model, folder / "o", "--layer", "/fc/Gemm=8", "--layer", "onnx::MatMul_42=6", "--layer", "layers.0.k_proj=4", "--save-bits", folder / "s.json")
    got = [(l["weightBits"], l["weight"]) for l in layers_of(folder / "s.json").values()]
    return got == [(8, "fc.w"), (6, "onnx::MatMul_42"), (4, "onnx::MatMul_43")], f"{got}"


def odd_names(folder):
    """V50: quotes, backslash, UTF-8, 300 characters, characters of regular expressions: in flags, configurations and allocations."""
    model = chain(folder / "m.onnx", ODD)
    pins = {name: {"weightBits": 3 + i} for i, name in enumerate(ODD)}
    flags = [f for name, pin in pins.items() for f in ("--layer", f"{name}={pin['weightBits']}")]
    good, detail = save_load(folder, model, flags)
    compile_model(model, folder / "d", "--config", put(folder / "c.json", {"bit": {"layers": pins}}))
    widths = {n: {"weightBits": l["weightBits"]} for n, l in layers_of(folder / "a.json").items()}
    printed = quern("compile", "--print-config", *flags)
    return good and widths == pins and digest(folder / "d") == digest(folder / "a") and json.loads(printed.stdout)["bit"]["layers"] == pins, detail


def files_on_failure(folder):
    """A compile that fails leaves an older allocation as it was and nothing beside it; a place that cannot be written is known before the work."""
    former = {"format": "quern-allocation", "version": 1}
    old = put(folder / "a.json", former)
    fails("compile", MODEL, "-o", folder / "o", "--layer", "nowhere=8", "--save-bits", old, says=["nowhere"])
    fails("compile", MODEL, "-o", folder / "o", "--bits", 8, "--act-bits", 8, "--save-bits", old, says=["--calib"])
    fails("compile", MODEL, "-o", folder / "o", "--save-bits", folder / "no" / "a.json", says=["cannot write the allocation"])
    fails("compile", MODEL, "-o", folder / "o", "--save-bits", folder, says=["cannot write the allocation"])
    kept = json.loads(old.read_text()) == former and [p.name for p in folder.iterdir()] == ["a.json"]
    compile_model(MODEL, folder / "o", "--save-bits", old)
    return kept and sorted(p.name for p in folder.iterdir()) == ["a.json", "o"] and len(layers_of(old)) > 20, "4 failures"


def main():
    tally = Tally()
    mixed = ["--layer", f"{Q_PROJ}=8", "--weight-16bits", "layers.1", "--rounding", "signed", "--embedding-bits", 8, "--bits", "ffn=3"]
    cases = [("Q4_0", lambda f: save_load(f, MODEL, [])), ("int8", lambda f: save_load(f, MODEL, ["--bits", 8])), ("mixed with pins", lambda f: save_load(f, MODEL, mixed)),
             ("minmax", lambda f: save_load(f, MODEL, ["--rounding", "minmax", "--percentile", 0.99])),
             ("dynamic activations", lambda f: save_load(f, MODEL, ["--bits", 8, "--act-bits", 8, "--dynamic-activations"]))]
    for method in range(4):
        flags = ["--config", ROOT / "tests" / "engine" / "mixed.config.json", "--method", method]
        cases.append((f"calibrated, method {method}", lambda f, flags=flags: save_load(f, MODEL, [*flags, "--calib", few_samples(f)])))
    for output in range(3):
        value = {"calibration": {"quantizeOutputs": True, "output": output, "method": output}}
        cases.append((f"quantized outputs, {output}", lambda f, value=value: save_load(f, MODEL, ["--config", put(f / "o.json", value), "--calib", few_samples(f)])))
    cases += [("rounding with samples", with_rounding), ("errors", with_errors), ("fused", fused), ("fingerprint", fingerprints), ("by hand", by_hand), ("precedence", precedence),
              ("V47 components", component_match), ("V48 no match", matches_nothing), ("V49 names", names_of_the_user), ("V50 odd names", odd_names),
              ("failure", files_on_failure)]
    for name, call in cases:
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tally.attempt(name, lambda: call(pathlib.Path(folder)))
    tally.end()


if __name__ == "__main__":
    main()
