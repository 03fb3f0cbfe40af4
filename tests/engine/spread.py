"""A model whose channels differ much in size, made of one whose channels do not."""
import numpy as np
import onnx
from onnx import numpy_helper


def spread_channels(path, to, sigma=0.5):
    """The same function with other channels: a gain whose product only weights read is divided by drawn factors, the weights' rows are multiplied."""
    model, rng = onnx.load(path), np.random.default_rng(3)
    graph = model.graph
    constants = {i.name: i for i in graph.initializer}
    outputs, readers = {o.name for o in graph.output}, {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def scale(name, by):
        array = numpy_helper.to_array(constants[name])
        constants[name].CopyFrom(numpy_helper.from_array((array * by).astype(array.dtype), name))

    changed = 0
    for node in graph.node:
        gain = next((n for n in node.input if n in constants and len(constants[n].dims) == 1), None)
        behind = [n for n in readers.get(node.output[0], []) if n.op_type != "Shape"]
        if node.op_type != "Mul" or not gain or not behind or not all(n.op_type == "MatMul" and n.input[1] in constants for n in behind):
            continue
        if behind[0].output[0] in outputs:  # the head is left alone
            continue
        by = np.exp(sigma * rng.standard_normal(constants[gain].dims[0]))
        scale(gain, 1 / by)
        for n in behind:
            scale(n.input[1], by[:, None])
        changed += 1
    onnx.save(model, to)
    return changed
