"""Cases of contrib_cases.py: Attention of ai.onnx with dynamic dims, and both RotaryEmbeddings."""
import numpy as np
from contrib_graph import Graph, T, case, floats, rnd, without_tail
from onnx.reference import ReferenceEvaluator


# --- Attention of ai.onnx, dynamic dims -------------------------------------------------------------------------------
def standard_attention(packed=True, past=0, mask=None, mask_dims=None, lengths=None, s=5, t=None, present=False, **attrs):
    g, b, heads, kv, d, dv = Graph(), 2, 4, 2, 8, 6
    tn, t = ("T", t) if t else ("S", s)
    if packed:
        ins = [g.x("q", rnd(b, s, heads * d), ["B", "S", heads * d]), g.x("k", rnd(b, t, kv * d, seed=1), ["B", tn, kv * d]),
               g.x("v", rnd(b, t, kv * dv, seed=2), ["B", tn, kv * dv]), "", "", "", ""]
        attrs |= {"q_num_heads": heads, "kv_num_heads": kv}
    else:
        ins = [g.x("q", rnd(b, heads, s, d), ["B", heads, "S", d]), g.x("k", rnd(b, kv, t, d, seed=1), ["B", kv, tn, d]),
               g.x("v", rnd(b, kv, t, dv, seed=2), ["B", kv, tn, dv]), "", "", "", ""]
    if mask is not None:
        ins[3] = g.x("mask", mask, mask_dims)
    if past:
        ins[4], ins[5] = g.x("pk", rnd(b, kv, past, d, seed=3), ["B", kv, "P", d]), g.x("pv", rnd(b, kv, past, dv, seed=4), ["B", kv, "P", dv])
    if lengths is not None:
        ins[6] = g.x("lengths", lengths, ["B"])
    without_tail(ins)
    outs = ["y", "present_k", "present_v"] if past or present else ["y"]
    g.op("Attention", ins, outs, domain="", **attrs)
    model = g.model(floats(*outs), opset=24)
    return model, g.feed, lambda f: ReferenceEvaluator(model).run(None, f)


HOLES = np.array([[[[1, 1, 0, 1, 0]] * 5], [[[1] * 5] * 2 + [[0] * 5] + [[1] * 5] * 2]], bool)  # one row hides everything


@case
def standard_causal(): return standard_attention(is_causal=1)
@case
def standard_heads_cross(): return standard_attention(packed=False, t=7, scale=0.3, softcap=2.0)
@case
def standard_past(): return standard_attention(past=3, is_causal=1)
@case
def standard_present(): return standard_attention(packed=False, present=True)
@case
def standard_bool_mask(): return standard_attention(mask=HOLES, mask_dims=["B", 1, "S", "S"])
@case
def standard_bool_mask_causal(): return standard_attention(mask=HOLES, mask_dims=["B", 1, "S", "S"], is_causal=1)
@case
def standard_float_mask():
    return standard_attention(mask=np.where(HOLES, 0, -np.inf).astype(np.float32) + rnd(2, 1, 5, 5), mask_dims=["B", 1, "S", "S"])
@case
def standard_lowest_mask():  # a row of the lowest number is no row of -inf: its scores tie
    return standard_attention(mask=np.where(HOLES, 0, np.finfo(np.float32).min).astype(np.float32), mask_dims=["B", 1, "S", "S"])
@case
def standard_short_mask(): return standard_attention(mask=rnd(5, 3), mask_dims=["S", 3], t=7, s=5)
@case
def standard_lengths(): return standard_attention(packed=False, t=8, lengths=np.array([3, 8], np.int64))
@case
def standard_lengths_causal(): return standard_attention(packed=False, t=8, lengths=np.array([3, 8], np.int64), is_causal=1)


# --- rotary ---------------------------------------------------------------------------------------------------------
def rotary(shape, dims, positions, pos_dims, width, **attrs):
    g = Graph()
    angle = np.arange(32)[:, None] * (0.3 ** np.arange(width // 2))[None]
    ins = [g.x("x", rnd(*shape), dims), g.x("pos", positions, pos_dims), g.w("cos", np.cos(angle).astype(np.float32)),
           g.w("sin", np.sin(angle).astype(np.float32))]
    g.op("RotaryEmbedding", ins, ["y"], **attrs)
    return g.model(floats("y")), g.feed


POS = np.array([[0, 1, 2], [4, 5, 6]], np.int64)


@case
def rotary_3d(): return rotary((2, 3, 32), ["B", "S", 32], POS, ["B", "S"], 8)
@case
def rotary_4d(): return rotary((2, 4, 3, 8), ["B", 4, "S", 8], POS, ["B", "S"], 8)
@case
def rotary_first(): return rotary((2, 3, 32), ["B", "S", 32], np.array([5], np.int64), [1], 8)
@case
def rotary_interleaved(): return rotary((2, 3, 32), ["B", "S", 32], POS, ["B", "S"], 8, interleaved=1)
@case
def rotary_part(): return rotary((2, 3, 32), ["B", "S", 32], POS, ["B", "S"], 4, num_heads=4, rotary_embedding_dim=4)


@case
def rotary_two_domains():
    g = Graph()
    angle = np.arange(32)[:, None] * (0.3 ** np.arange(4))[None]
    g.w("cos", np.cos(angle).astype(np.float32)), g.w("sin", np.sin(angle).astype(np.float32))
    g.x("x", rnd(2, 4, 3, 8), ["B", 4, "S", 8]), g.x("pos", POS, ["B", "S"])
    g.op("RotaryEmbedding", ["x", "pos", "cos", "sin"], ["a"])
    g.op("RotaryEmbedding", ["x", "cos", "sin", "pos"], ["b"], domain="")
    g.op("Sub", ["a", "b"], ["d"], domain="")
    return g.model(floats("a", "b", "d"), opset=23), g.feed
