"""Cases of contrib_cases.py: what must be refused, with the words that the message holds."""
import numpy as np
from contrib_attention import group_query, packed_attention
from contrib_graph import Graph, T, floats, refused, rnd


# --- refusals: the message must hold these words ---------------------------------------------------------------------------
@refused("sliding_window_cache", "query_seqlens", "GroupQueryAttention")
def gqa_window_cache():
    model, feed = group_query(local_window_size=3, sliding_window_cache=1)
    n = model.graph.node[0]
    n.input.extend([""] * (16 - len(n.input)) + ["seqlens"])
    return model, feed


@refused("do_rotary", "past_present_share_buffer")
def attention_shared(): return packed_attention(do_rotary=1, past_present_share_buffer=1)


@refused("already quantized", "QLinearAdd")
def qlinear_add():
    g = Graph()
    s, z = g.w("s", np.array(0.1, np.float32)), g.w("z", np.array(0, np.uint8))
    g.op("QLinearAdd", [g.x("a", np.zeros((2, 4), np.uint8)), s, z, g.x("b", np.zeros((2, 4), np.uint8)), s, z, s, z], ["y"])
    return g.model([("y", T.UINT8)]), g.feed


@refused("already quantized", "DynamicQuantizeMatMul")
def dynamic_quantize_matmul():
    g = Graph()
    g.op("DynamicQuantizeMatMul", [g.x("a", rnd(2, 4)), g.w("w", np.zeros((4, 3), np.uint8)), g.w("s", np.array([0.1], np.float32))], ["y"])
    return g.model(floats("y")), g.feed


@refused("already quantized", "MatMulInteger", "export the float model")
def dynamic_quantization():
    g = Graph()
    ins = [g.x("a", rnd(2, 64), ["N", 64]), g.w("w", np.ones((64, 32), np.int8)), g.w("s", np.array(0.01, np.float32))]
    g.op("DynamicQuantizeLinear", ["a"], ["q", "scale", "zero"], domain=""), g.op("MatMulInteger", ["q", "w", "zero"], ["sums"], domain="")
    g.op("Cast", ["sums"], ["f"], domain="", to=1), g.op("Mul", ["scale", "s"], ["both"], domain=""), g.op("Mul", ["f", "both"], ["y"], domain="")
    return g.model(floats("y")), g.feed
