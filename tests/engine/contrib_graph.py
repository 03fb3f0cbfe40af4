"""What the cases of contrib_cases.py are made of: small graphs, and the tables that cases put themselves into."""
import numpy as np
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper

CASES = {}  # name -> function that returns a model, its inputs and, where onnxruntime has no kernel, a function of the inputs that gives the outputs
ROLES = {}  # the same for models whose weights are named after their roles
REFUSED = {}  # name -> such a function, and the words that the message must hold
TYPES = {np.dtype("float32"): T.FLOAT, np.dtype("int64"): T.INT64, np.dtype("int32"): T.INT32, np.dtype("uint8"): T.UINT8, np.dtype("bool"): T.BOOL}


def case(f):
    CASES[f.__name__] = f
    return f


def roles(f):
    ROLES[f.__name__] = f
    return f


def refused(*words):
    def put(f):
        REFUSED[f.__name__] = (f, words)
        return f

    return put


def rnd(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


class Graph:
    """One node or several, with inputs whose dims may have names, and constants."""

    def __init__(self):
        self.nodes, self.inputs, self.consts, self.feed = [], [], [], {}

    def x(self, name, value, dims=None):
        if not isinstance(value, np.ndarray):
            value = np.array(value, np.int64)
        self.inputs.append(h.make_tensor_value_info(name, TYPES[value.dtype], list(dims or value.shape)))
        self.feed[name] = value
        return name

    def w(self, name, value):
        self.consts.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind, ins, outs, domain="com.microsoft", **attrs):
        self.nodes.append(h.make_node(kind, ins, outs, name=f"{kind}_{len(self.nodes)}", domain=domain, **attrs))

    def model(self, outs, opset=17):
        outs = [h.make_tensor_value_info(o, t, None) for o, t in outs]
        g = h.make_graph(self.nodes, "case", self.inputs, outs, self.consts)
        return h.make_model(g, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)], ir_version=10)


def floats(*names):
    return [(n, T.FLOAT) for n in names]


def without_tail(names):
    """Absent inputs at the end are not written."""
    while names and not names[-1]:
        names.pop()
    return names


def reference(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)
