"""Writes the node tests of the installed `onnx` package to a folder, in ONNX's own layout, for node_tests.py and node_tests_run.py.

usage: node_cases.py FOLDER
Each case with tensor inputs and outputs becomes FOLDER/NAME/model.onnx and test_data_set_N/{input,output}_N.pb. Does nothing when the folder
holds the cases of this version already.
"""
import pathlib, shutil, sys, warnings
from common import need

need("onnx")
warnings.simplefilter("ignore")
import onnx
from onnx import numpy_helper

STAMP = f"onnx {onnx.__version__}, layout 1\n"


def as_tensor(value, info):
    tensor = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, info.name)
    return tensor.SerializeToString()


def write(case, folder):
    files = {"model.onnx": case.model.SerializeToString()}
    graph = case.model.graph
    for n, (inputs, outputs) in enumerate(case.data_sets):
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for i, (value, info) in enumerate(zip(values, infos, strict=True)):
                files[f"test_data_set_{n}/{kind}_{i}.pb"] = as_tensor(value, info)
    for name, data in files.items():
        path = folder / case.name / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main():
    folder = pathlib.Path(sys.argv[1])
    stamp = folder / "stamp"
    if stamp.exists() and stamp.read_text() == STAMP:
        return print(f"{folder} holds the cases of {STAMP.strip()}")
    from onnx.backend.test.case.node import collect_testcases

    shutil.rmtree(folder, ignore_errors=True)
    written, other = 0, 0
    for case in collect_testcases(None):
        try:
            write(case, folder)
            written += 1
        except (TypeError, ValueError, AttributeError):  # sequences, optionals and maps have no tensor form
            shutil.rmtree(folder / case.name, ignore_errors=True)
            other += 1
    stamp.write_text(STAMP)
    print(f"{written} cases written, {other} have other values than tensors")


if __name__ == "__main__":
    main()
