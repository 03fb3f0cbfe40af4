"""An independent NNEF parser (the PyPI package `nnef`) reads our graphs.

What is standard in graph.nnef has to be accepted as it stands: version, extensions, fragments, externals, variables, every standard operator with its
parameters. What is the engine's own is told to the parser or taken out first:
  - its operators are declared as fragments without a body, with just the parameters that the engine knows;
  - its `extension tract_...` lines go, and dims are bound to numbers, since a symbol is no NNEF;
  - NNEF has no arithmetic on integer tensors, so these are called scalar ones; and no infinity, which becomes the largest float; and no
    literal tensors: the engine's [[1.0]] becomes 1.0.
"""
import argparse, pathlib, re, tempfile
from common import FLOAT, MODELS, SHARED, Tally, compile_model, need, ort_session

need("nnef", "onnxruntime", "numpy")
import nnef, numpy as np

DECLARED = """
fragment tract_core_einsum( inputs: tensor<scalar>[], expr: string, acc: string, output: string = '' ) -> ( y: tensor<scalar> );
fragment tract_core_gather<?>( input: tensor<?>, indices: tensor<scalar>, axis: integer, datum_type: string = '' ) -> ( y: tensor<?> );
fragment tract_core_gather_nd<?>( input: tensor<?>, indices: tensor<scalar>, batch_dims: integer ) -> ( y: tensor<?> );
fragment tract_core_range( start: integer, end: integer, step: integer ) -> ( y: tensor<scalar> );
fragment tract_core_broadcast<?>( input: tensor<?>, shape: integer[] ) -> ( y: tensor<?> );
fragment tract_core_trilu<?>( input: tensor<?>, upper: logical, k: integer ) -> ( y: tensor<?> );
fragment tract_core_rms_norm( input: tensor<scalar>, axis: integer, eps: scalar ) -> ( y: tensor<scalar> );
fragment tract_core_gather_elements<?>( input: tensor<?>, indices: tensor<scalar>, axis: integer ) -> ( y: tensor<?> );
fragment recip( x: tensor<scalar> ) -> ( y: tensor<scalar> );
fragment tract_core_silu( x: tensor<scalar> ) -> ( y: tensor<scalar> );
fragment tract_core_erf( x: tensor<scalar> ) -> ( y: tensor<scalar> );
"""
# A cast's result has the type that a string names, which no declaration can say: each kind of result is an operator of its own.
CAST = "fragment tract_core_cast_to_{0}<?>( input: tensor<?>, to: string ) -> ( y: tensor<{0}> );\n"
KV_DIMS = {"batch": 2, "seq": 3, "past": 4, "total": 7}


def kind_of(datum_type):
    return "logical" if datum_type == "bool" else "scalar"


def bindings(path):
    """--set for every named dim of the inputs: from the sample beside the model where there is one."""
    sample = path.with_name("inputs.npz")
    arrays = dict(np.load(sample)) if sample.exists() else {}
    names = {}
    for port in ort_session(path).get_inputs():
        for axis, dim in enumerate(port.shape):
            if isinstance(dim, str):
                names[dim] = arrays[port.name].shape[axis] if port.name in arrays else KV_DIMS[dim]
    return [word for name, n in names.items() for word in ("--set", f"{name}={n}")]


def name_casts(text):
    """`tract_core_cast(..., to='i64')` becomes `tract_core_cast_to_scalar(...)`."""
    call = "tract_core_cast("
    at = text.rfind(call)
    while at >= 0:
        depth, end = 1, at + len(call)
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        kind = kind_of(re.search(r"to='(\w+)[^']*'\)$", text[at:end])[1])
        text = f"{text[:at]}tract_core_cast_to_{kind}({text[at + len(call):]}"
        at = text.rfind(call, 0, at)
    return text


def as_standard(text):
    """The graph with the engine's operators declared and its extensions taken out; the rest is as it was written."""
    text = re.sub(r"(?m)^extension tract_\w+ \w+;\n", "", text)
    text = re.sub(r"\b(external|variable)<integer>", r"\1<scalar>", text)
    text = re.sub(r"\[\[([\d.]+)\]\]", r"\1", text)
    text = name_casts(re.sub(r"\binf\b", "3.4028235e+38", text))
    own = [line for line in DECLARED.splitlines() if line] + [CAST.format(kind) for kind in ("scalar", "logical")]
    head = re.match(r"version [^;]*;\s*(?:extension [^;]*;\s*)*", text).group()
    if "KHR_enable_fragment_definitions" not in head:
        own.insert(0, "extension KHR_enable_fragment_definitions;")
    return head + "\n".join(own) + "\n" + text[len(head):]


def parse(path, folder, flags):
    out = folder / "graph"
    compile_model(path, out, *flags, *bindings(path))
    quant = out / "graph.quant"
    try:
        graph = nnef.parse_string(as_standard((out / "graph.nnef").read_text()), quant.read_text() if quant.exists() else None)
    except nnef.Error as error:
        return False, str(error)
    return len(graph.operations) > 0, f"{len(graph.operations)} operations, {len(graph.inputs)} inputs, {len(graph.outputs)} outputs"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    models = [MODELS / "bytellama" / "model.onnx", MODELS / "bytellama" / "model-kv.onnx", *sorted((SHARED / "zoo").glob("*/model.onnx"))]
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        for n, path in enumerate(models):
            title = f"{path.parent.name}/{path.name}"
            if args.names and not any(part in title for part in args.names):
                continue
            for kind, flags in (("float", FLOAT), ("q4_0", []), ("int8", ["--bits", "8"])):
                folder = pathlib.Path(name) / f"{n}-{kind}"
                folder.mkdir()
                tally.attempt(f"{title} {kind}", lambda: parse(path, folder, flags))
    tally.end()


if __name__ == "__main__":
    main()
