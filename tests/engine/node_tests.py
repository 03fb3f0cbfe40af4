"""The ONNX node tests through the engine: each case is compiled as a float archive and run in tract.

usage: node_tests.py CASES [--update] [--only TEXT] [--why]      CASES: the folder that node_cases.py wrote
node_tests.expected lists the cases that pass. One that no longer does fails the test; a new one is reported (--update rewrites the list).
An archive has static shape operands, so an input that only gives shapes, axes or other operands of that kind becomes an initializer first.
--why prints the reason of every case that does not pass, and the tally of reasons that tests/README.md shows.
"""
import argparse, collections, os, pathlib, queue, re, sys, tempfile, threading
from common import FLOAT, Broken, Engine, compile_model, need

need("tract", "onnx", "numpy")
import numpy as np, onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
RTOL, ATOL = 1e-3, 1e-5
RTOL_BF16 = 2.0 ** -7  # an archive computes in f32 what the reference rounds to 8 bits after each step

# Inputs that an archive holds as constants: operator -> their positions.
STATIC = {
    "AffineGrid": {1}, "BlackmanWindow": {0}, "CenterCropPad": {1}, "Clip": {1, 2}, "Col2Im": {1, 2}, "ConstantOfShape": {0}, "CumProd": {1},
    "CumSum": {1}, "DFT": {1, 2}, "DequantizeLinear": {1, 2}, "Dropout": {1, 2}, "Expand": {1}, "HammingWindow": {0}, "HannWindow": {0}, "If": {0},
    "MaxUnpool": {2}, "MelWeightMatrix": {0, 1, 2, 3, 4}, "OneHot": {1, 2}, "Pad": {1, 2, 3}, "QuantizeLinear": {1, 2}, "Range": {0, 1, 2},
    "ReduceL1": {1}, "ReduceL2": {1}, "ReduceLogSum": {1}, "ReduceLogSumExp": {1}, "ReduceMax": {1}, "ReduceMean": {1}, "ReduceMin": {1},
    "ReduceProd": {1}, "ReduceSum": {1}, "ReduceSumSquare": {1}, "Reshape": {1}, "Resize": {1, 2, 3}, "STFT": {1, 2, 3}, "Slice": {1, 2, 3, 4},
    "Split": {1}, "Squeeze": {1}, "Tile": {1}, "TopK": {1}, "Trilu": {1}, "Unsqueeze": {1}, "Upsample": {1},
}

# The first that matches names the class of a case that does not pass.
REASONS = [
    ("the command crashed", r"^quern ended with"),
    ("the engine refuses the archive", r"^the engine: "),
    ("the engine panics", r"^the engine panicked"),
    ("another result", r"^differs"),
    ("an operator that quern does not know", r"operators? (is|are) not supported"),
    ("an operator that the engine has no form for", r"without an NNEF form|the engine samples images|column-major"),
    ("training mode", r"training_mode"),
    ("an opset before 7", r"is the oldest that is supported"),
    ("an element type that the engine does not have (8- and 4-bit floats, integers below 8 bits)", r"is of type \w+, which the engine does not have|the engine has no conversion to u?(int|float)[248]"),
    ("an element type that quern refuses (strings, complex numbers, 6-bit floats)", r"is of type|an element type that is not supported"),
    ("a shape that depends on the data", r"depends on the data"),
]


def static_inputs(case, model):
    """Names of the inputs that are static operands. An expanded case has the inputs of the operator that it expands."""
    plain = case.parent / re.sub(r"_expanded(_ver\d+)?$", "", case.name) / "model.onnx"
    nodes = (onnx.load(plain) if plain.exists() else model).graph.node
    uses = collections.defaultdict(list)
    for node in nodes:
        for position, name in enumerate(node.input):
            uses[name].append(position in STATIC.get(node.op_type, ()))
    return {i.name for i in model.graph.input if uses[i.name] and all(uses[i.name])}


def read_tensor(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def prepare(case, folder):
    """The model with its static inputs as initializers, in a file, and the other inputs in order."""
    model = onnx.load(case / "model.onnx")
    tensors = [read_tensor(case / "test_data_set_0" / f"input_{i}.pb") for i in range(len(model.graph.input))]
    fixed, kept, feeds = static_inputs(case, model), [], []
    for info, tensor in zip(model.graph.input, tensors):
        if info.name in fixed:
            tensor.name = info.name
            model.graph.initializer.append(tensor)
        else:
            kept.append(info)
            feeds.append(tensor)
    if fixed:
        del model.graph.input[:]
        model.graph.input.extend(kept)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path, feeds, len(model.graph.output)


def as_archive(array):
    """bf16 is f32 in an archive."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def check_output(i, got, want):
    rtol, want = RTOL_BF16 if want.dtype.name == "bfloat16" else RTOL, as_archive(want)
    if got.shape != want.shape:
        raise Broken(f"differs: output {i} is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}")
    if got.dtype != want.dtype:
        raise Broken(f"differs: output {i} is {got.dtype}, expected {want.dtype}")
    if not np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=ATOL, equal_nan=True):
        raise Broken(f"differs: output {i}: {got.ravel()[:4]} ..., expected {want.ravel()[:4]} ...")


def run_case(case, engine, folder):
    path, feeds, n_outputs = prepare(case, folder)
    archive = folder / "case.nnef.tar"
    compile_model(path, archive, *FLOAT)
    outputs = engine.run(archive, [as_archive(numpy_helper.to_array(t)) for t in feeds])
    if len(outputs) != n_outputs:
        raise Broken(f"differs: {len(outputs)} outputs, expected {n_outputs}")
    for i, got in enumerate(outputs):
        check_output(i, got, numpy_helper.to_array(read_tensor(case / "test_data_set_0" / f"output_{i}.pb")))


def work(jobs, results):
    engine = Engine()
    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                case = jobs.get_nowait()
            except queue.Empty:
                break
            try:
                run_case(case, engine, pathlib.Path(folder))
                results[case.name] = None
            except Exception as error:  # also what numpy or onnx raise on types that they lack
                results[case.name] = str(error) or type(error).__name__
    engine.close()


def run_all(cases, worker):
    """Runs worker(jobs, results) in a thread for each core; results: name -> None, or why it does not pass."""
    jobs, results = queue.Queue(), {}
    for case in cases:
        jobs.put(case)
    threads = [threading.Thread(target=worker, args=(jobs, results)) for _ in range(os.cpu_count() or 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) != len(cases):
        sys.exit(f"{len(cases) - len(results)} cases gave no result")
    return results


def reason(why):
    return next((text for text, pattern in REASONS if re.search(pattern, why, re.S)), "something else")


def report(results, expected_path, args):
    passing = {name for name, why in results.items() if why is None}
    if args.why:
        for name, why in sorted(results.items()):
            if why is not None:
                print(f"{name}: [{reason(why)}] {' '.join(why.split())[:300]}")
        for text, count in collections.Counter(reason(why) for why in results.values() if why is not None).most_common():
            print(f"| {text} | {count} |")
    expected = set(expected_path.read_text().split()) if expected_path.exists() else set()
    if args.only:
        expected &= set(results)
    crashed = sorted(name for name, why in results.items() if why and "quern ended with" in why)
    lost, new = sorted(expected - passing), sorted(passing - expected)
    for name in lost:
        print(f"FAIL  {name}: {' '.join(results.get(name, 'no such case').split())[:300]}")
    for name in crashed:
        print(f"FAIL  {name}: {results[name][:2000]}")
    if args.update:
        expected_path.write_text("".join(f"{name}\n" for name in sorted(passing)))
    elif new:
        print(f"{len(new)} more pass than {expected_path.name} lists (--update adds them): {' '.join(new[:20])}{' ...' if len(new) > 20 else ''}")
    print(f"{len(passing)} of {len(results)} cases pass; {len(lost)} that should do not, {len(crashed)} crashed the command")
    return 1 if (lost and not args.update) or crashed or not passing else 0


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--why", action="store_true")
    args = parser.parse_args()
    return args, sorted(p for p in args.cases.iterdir() if p.is_dir() and args.only in p.name)


def main():
    args, cases = parse()
    return report(run_all(cases, work), HERE / "node_tests.expected", args)


if __name__ == "__main__":
    sys.exit(main())
