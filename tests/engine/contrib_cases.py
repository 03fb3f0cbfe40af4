#!/usr/bin/env python3
"""Fused operators of com.microsoft against onnxruntime: float execution (`quern run`) and the float archive in tract.

usage: QUERN=build/quern contrib_cases.py [--only TEXT] [--no-tract]
Each case is a small graph with dynamic dims where the operator has them. Needs: pip install onnx onnxruntime tract numpy
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np, onnx, onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator

ORT = onnxruntime
TOLERANCE = 2e-5  # relative L2, float against float
CASES = {}
TYPES = {np.dtype("float32"): T.FLOAT, np.dtype("int64"): T.INT64, np.dtype("int32"): T.INT32, np.dtype("uint8"): T.UINT8, np.dtype("bool"): T.BOOL}


def case(f):
    CASES[f.__name__] = f
    return f


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


# --- attention with a packed weight -----------------------------------------------------------------------------
def packed_attention(mask=None, mask_dims=None, past=0, bias=False, sizes=None, present=False, batch="B", **attrs):
    g, b, s, hidden, heads = Graph(), 2, 5, 32, 4
    v = sizes[2] if sizes else hidden
    g.x("x", rnd(b, s, hidden), [batch, "S", hidden])
    g.w("w", rnd(hidden, 2 * hidden + v, seed=1) * 0.2)
    g.w("b", rnd(2 * hidden + v, seed=2))
    ins = ["x", "w", "b", "", "", ""]
    if mask is not None:
        ins[3] = g.x("mask", mask, mask_dims)
    if past:
        ins[4] = g.x("past", rnd(2, b, heads, past, hidden // heads, seed=3), [2, "B", heads, "P", hidden // heads])
    if bias:
        ins[5] = g.x("bias", rnd(1, heads, s, s + past, seed=4), [1, heads, "S", "P+S" if past else "S"])
    if sizes:
        attrs["qkv_hidden_sizes"] = sizes
    while not ins[-1]:
        ins.pop()
    outs = ["y", "present"] if past or present else ["y"]
    g.op("Attention", ins, outs, num_heads=heads, **attrs)
    return g.model(floats(*outs)), g.feed


RAW = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)


@case
def attention_plain(): return packed_attention()
@case
def attention_causal(): return packed_attention(unidirectional=1)
@case
def attention_scale(): return packed_attention(scale=0.2)
@case
def attention_raw_mask(): return packed_attention(RAW, ["B", "S"])
@case
def attention_raw_mask_causal(): return packed_attention(RAW, ["B", "S"], unidirectional=1, mask_filter_value=-3.4028234663852886e38)
@case
def attention_lengths(): return packed_attention(np.array([5, 3], np.int32), ["B"])
@case
def attention_starts(): return packed_attention(np.array([5, 4, 0, 2], np.int32), [4], batch=2)
@case
def attention_mask_3d(): return packed_attention(np.tril(np.ones((2, 5, 5), np.int32)), ["B", "S", "S"])
@case
def attention_uneven(): return packed_attention(sizes=[32, 32, 48])
@case
def attention_bias(): return packed_attention(bias=True)
@case
def attention_past(): return packed_attention(np.ones((2, 8), np.int32), ["B", "T"], past=3, unidirectional=1)
@case
def attention_present(): return packed_attention(present=True, unidirectional=1)


# --- separate query, key, value ---------------------------------------------------------------------------------
def multi_head(form="qkv", bias=False, mask=None, mask_dims=None, more=False, past=0, present=False, kv=None, **attrs):
    g, b, s, heads, d = Graph(), 2, 5, 4, 8
    t, hidden = kv or s, heads * d
    tn = "T" if kv else "S"
    ins = [""] * 8
    if form == "packed":
        ins[0] = g.x("q", rnd(b, s, heads, 3, d), ["B", "S", heads, 3, d])
    else:
        ins[0] = g.x("q", rnd(b, s, hidden), ["B", "S", hidden])
    if form == "qkv":
        ins[1] = g.x("k", rnd(b, t, hidden, seed=1), ["B", tn, hidden])
        ins[2] = g.x("v", rnd(b, t, hidden, seed=2), ["B", tn, hidden])
    if form == "packed_kv":
        ins[1] = g.x("kv", rnd(b, t, heads, 2, d, seed=1), ["B", tn, heads, 2, d])
    if form == "heads":
        ins[1] = g.x("k", rnd(b, heads, t, d, seed=1), ["B", heads, tn, d])
        ins[2] = g.x("v", rnd(b, heads, t, d, seed=2), ["B", heads, tn, d])
    if bias:
        ins[3] = g.w("b", rnd(3 * hidden, seed=3))
    if mask is not None:
        ins[4] = g.x("mask", mask, mask_dims)
    if more:
        ins[5] = g.x("more", rnd(1, heads, s, t + past, seed=4), [1, heads, "S", "P+" + tn if past else tn])
    if past:
        ins[6] = g.x("past_k", rnd(b, heads, past, d, seed=5), ["B", heads, "P", d])
        ins[7] = g.x("past_v", rnd(b, heads, past, d, seed=6), ["B", heads, "P", d])
    while not ins[-1]:
        ins.pop()
    outs = ["y", "present_k", "present_v"] if past or present else ["y"]
    g.op("MultiHeadAttention", ins, outs, num_heads=heads, **attrs)
    return g.model(floats(*outs)), g.feed


@case
def mha_plain(): return multi_head()
@case
def mha_bias(): return multi_head(bias=True)
@case
def mha_cross(): return multi_head(kv=7, bias=True)
@case
def mha_causal(): return multi_head(unidirectional=1)
@case
def mha_mask(): return multi_head(mask=RAW, mask_dims=["B", "S"])
@case
def mha_mask_3d(): return multi_head(mask=np.tril(np.ones((2, 5, 5), np.int32)), mask_dims=["B", "S", "S"])
@case
def mha_more(): return multi_head(more=True, scale=0.3)
@case
def mha_heads(): return multi_head("heads", kv=6)
def unpacked(q, k, v):
    """onnxruntime has no packed kernels on this device, so its answer for the separate tensors is the reference."""
    g = Graph()
    g.op("MultiHeadAttention", [g.x(n, x.reshape(*x.shape[:2], -1)) for n, x in (("q", q), ("k", k), ("v", v))], ["y"], num_heads=4)
    return reference(g.model(floats("y")), g.feed)


@case
def mha_packed(): return *multi_head("packed"), lambda f: unpacked(*(f["q"][:, :, :, i] for i in range(3)))
@case
def mha_packed_kv(): return *multi_head("packed_kv", kv=6), lambda f: unpacked(f["q"], *(f["kv"][:, :, :, i] for i in range(2)))
@case
def mha_past(): return multi_head(past=3, bias=True)
@case
def mha_past_causal(): return multi_head(past=3, unidirectional=1, more=True)
@case
def mha_present(): return multi_head(present=True, bias=True)


# --- grouped heads ------------------------------------------------------------------------------------------------
def group_query(b=1, s=4, past=0, packed=False, rotary=False, heads=4, kv=1, d=16, positions=None, more=False, sink=False, width=None, **attrs):
    g = Graph()
    ins = [""] * 12
    if packed:
        ins[0] = g.x("q", rnd(b, s, (heads + 2 * kv) * d), ["B", "S", (heads + 2 * kv) * d])
    else:
        ins[0] = g.x("q", rnd(b, s, heads * d), ["B", "S", heads * d])
        ins[1] = g.x("k", rnd(b, s, kv * d, seed=1), ["B", "S", kv * d])
        ins[2] = g.x("v", rnd(b, s, kv * d, seed=2), ["B", "S", kv * d])
    ins[3] = g.x("past_k", rnd(b, kv, past, d, seed=3), ["B", kv, "P", d])
    ins[4] = g.x("past_v", rnd(b, kv, past, d, seed=4), ["B", kv, "P", d])
    ins[5] = g.x("seqlens", np.full((b,), past + s - 1, np.int32), ["B"])
    ins[6] = g.x("total", np.array(past + s, np.int32), [])
    if rotary:
        angle = np.arange(32)[:, None] * (0.3 ** np.arange((width or d) // 2))[None]
        ins[7] = g.w("cos", np.cos(angle).astype(np.float32))
        ins[8] = g.w("sin", np.sin(angle).astype(np.float32))
        attrs["do_rotary"] = 1
    if positions is not None:
        ins[9] = g.x("positions", positions, ["B", "S"])
    if more:
        ins[10] = g.x("more", rnd(1, heads, s, past + s, seed=5), [1, heads, "S", "P+S"])
    if sink:
        ins[11] = g.w("sink", rnd(heads, seed=6))
    while not ins[-1]:
        ins.pop()
    g.op("GroupQueryAttention", ins, ["y", "present_k", "present_v"], num_heads=heads, kv_num_heads=kv, **attrs)
    return g.model(floats("y", "present_k", "present_v")), g.feed


@case
def gqa_prompt(): return group_query()
@case
def gqa_genai(): return group_query(rotary=True)
@case
def gqa_batch(): return group_query(b=2, kv=2, rotary=True)
@case
def gqa_decode(): return group_query(s=1, past=6, rotary=True, kv=2)
@case
def gqa_more_tokens(): return group_query(s=3, past=6, rotary=True, kv=2)
@case
def gqa_packed(): return group_query(packed=True, rotary=True, kv=2)
@case
def gqa_interleaved(): return group_query(rotary=True, rotary_interleaved=1)
@case
def gqa_part_rotary(): return group_query(rotary=True, d=32, width=16)
@case
def gqa_positions(): return group_query(s=1, past=5, rotary=True, positions=np.array([[5]], np.int64))
@case
def gqa_window(): return group_query(s=7, local_window_size=3)
@case
def gqa_window_decode(): return group_query(s=1, past=8, local_window_size=3)
@case
def gqa_softcap(): return group_query(softcap=2.0, scale=0.5)
@case
def gqa_smooth(): return group_query(smooth_softmax=1)
@case
def gqa_sink(): return group_query(sink=True)
@case
def gqa_more(): return group_query(more=True, past=2, s=3)


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
    while not ins[-1]:
        ins.pop()
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


# --- norms and embeddings ------------------------------------------------------------------------------------------
def skip_norm(kind, bias=False, beta=True, total=False, skip=(2, 5, 32)):
    g = Graph()
    ins = [g.x("x", rnd(2, 5, 32), ["B", "S", 32]), g.x("skip", rnd(*skip, seed=1), (["B", "S", 32] if len(skip) == 3 and skip[0] == 2 else None)),
           g.w("gamma", rnd(32, seed=2))]
    if kind == "SkipLayerNormalization":
        ins.append(g.w("beta", rnd(32, seed=3)) if beta else "")
    if bias:
        ins.append(g.w("b", rnd(32, seed=4)))
    while not ins[-1]:
        ins.pop()
    g.op(kind, ins, ["y", "", "", "sum"] if total else ["y"], epsilon=1e-5)
    return g.model(floats("y", "sum") if total else floats("y")), g.feed


@case
def skip_layer_norm(): return skip_norm("SkipLayerNormalization")
@case
def skip_layer_norm_all(): return skip_norm("SkipLayerNormalization", bias=True, total=True)
@case
def skip_layer_norm_no_beta(): return skip_norm("SkipLayerNormalization", beta=False)
@case
def skip_layer_norm_broadcast(): return skip_norm("SkipLayerNormalization", skip=(1, 5, 32))
@case
def skip_rms_norm(): return skip_norm("SkipSimplifiedLayerNormalization")
@case
def skip_rms_norm_all(): return skip_norm("SkipSimplifiedLayerNormalization", bias=True, total=True)


def embed(mask=False, segments=True, positions=False):
    g = Graph()
    ids = np.array([[1, 2, 3, 4], [5, 6, 0, 0]], np.int32)
    ins = [g.x("ids", ids, ["B", "S"]), "", g.w("word", rnd(10, 16)), g.w("position", rnd(8, 16, seed=1)), "", g.w("gamma", rnd(16, seed=3)),
           g.w("beta", rnd(16, seed=4)), "", ""]
    if segments:
        ins[1] = g.x("segments", ids % 2, ["B", "S"])
        ins[4] = g.w("segment", rnd(2, 16, seed=2))
    if mask:
        ins[7] = g.x("mask", (ids > 0).astype(np.int32), ["B", "S"])
    if positions:
        ins[8] = g.x("positions", np.array([[3, 2, 1, 0], [4, 5, 6, 7]], np.int32), ["B", "S"])
    while not ins[-1]:
        ins.pop()
    g.op("EmbedLayerNormalization", ins, ["y", "index", "sum"], epsilon=1e-5)
    return g.model([("y", T.FLOAT), ("index", T.INT32), ("sum", T.FLOAT)]), g.feed


@case
def embed_plain(): return embed()
@case
def embed_mask(): return embed(mask=True)
@case
def embed_no_segments(): return embed(segments=False)
@case
def embed_positions(): return embed(positions=True, mask=True)


# --- products ---------------------------------------------------------------------------------------------------------
def fused_matmul(a, b, a_dims=None, weight=False, kind="FusedMatMul", **attrs):
    g = Graph()
    ins = [g.x("a", rnd(*a), a_dims), g.w("b", rnd(*b, seed=1)) if weight else g.x("b", rnd(*b, seed=1))]
    g.op(kind, ins, ["y"], **attrs)
    return g.model(floats("y")), g.feed


@case
def fused_matmul_alpha(): return fused_matmul((2, 3, 8), (8, 4), ["B", "S", 8], True, alpha=0.5)
@case
def fused_matmul_trans(): return fused_matmul((2, 8, 3), (2, 4, 8), transA=1, transB=1, alpha=0.25)
@case
def fused_matmul_batch(): return fused_matmul((3, 2, 4, 8), (3, 2, 4, 8), transBatchA=1, transBatchB=1, transB=1)
@case
def fused_matmul_batch_both(): return fused_matmul((3, 2, 4, 8), (2, 4, 3, 5), transBatchA=1, transA=1)
@case
def transpose_matmul(): return fused_matmul((2, 3, 8), (4, 8), ["B", "S", 8], True, kind="TransposeMatMul", transB=1)


@case
def fused_gemm():
    g = Graph()
    g.op("FusedGemm", [g.x("a", rnd(3, 8), ["N", 8]), g.w("w", rnd(4, 8, seed=1)), g.w("c", rnd(4, seed=2))], ["y"], transB=1, alpha=0.5, beta=2.0,
         activation="LeakyRelu", activation_alpha=0.1)
    return g.model(floats("y")), g.feed


@case
def fused_conv():
    g = Graph()
    g.op("FusedConv", [g.x("a", rnd(1, 3, 8, 8)), g.w("w", rnd(4, 3, 3, 3, seed=1)), g.w("c", rnd(4, seed=2))], ["y"], pads=[1, 1, 1, 1],
         activation="Relu")
    return g.model(floats("y")), g.feed


def n_bits(n=8, k=64, block=32, bits=4, zeros=None, bias=False):
    g, blocks = Graph(), -(-k // block)
    r = np.random.default_rng(n * k + block)
    ins = [g.x("x", rnd(2, 3, k), ["B", "S", k]), g.w("w", r.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)),
           g.w("scales", (0.01 + 0.1 * r.random((n, blocks))).astype(np.float32)), "", "", ""]
    if zeros == "packed":
        ins[3] = g.w("zeros", r.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8))
    if zeros == "float":
        ins[3] = g.w("zeros", (r.random((n, blocks)) * 15).astype(np.float32))
    if bias:
        ins[5] = g.w("bias", rnd(n, seed=9))
    while not ins[-1]:
        ins.pop()
    g.op("MatMulNBits", ins, ["y"], N=n, K=k, bits=bits, block_size=block)
    return g.model(floats("y")), g.feed


@case
def n_bits_plain(): return n_bits()
@case
def n_bits_zeros(): return n_bits(zeros="packed")
@case
def n_bits_block_16(): return n_bits(block=16, zeros="packed")
@case
def n_bits_block_128(): return n_bits(k=256, block=128, zeros="packed", bias=True)
@case
def n_bits_odd_blocks(): return n_bits(k=96, zeros="packed")
@case
def n_bits_part_block(): return n_bits(n=4, k=40, zeros="packed")
@case
def n_bits_float_zeros(): return n_bits(zeros="float")
@case
def n_bits_8(): return n_bits(bits=8, zeros="packed")
@case
def n_bits_2(): return n_bits(bits=2, k=128, zeros="packed")


def gather_blocks(bits=4, zeros=False, width=64, block=32):
    g = Graph()
    r = np.random.default_rng(bits + width)
    ins = [g.w("table", r.integers(0, 256, (10, width * bits // 8)).astype(np.uint8)), g.x("ids", np.array([[1, 9, 4], [0, 2, 2]], np.int64), ["B", "S"]),
           g.w("scales", (0.1 + r.random((10, -(-width // block)))).astype(np.float32))]
    if zeros:
        ins.append(g.w("zeros", r.integers(0, 256, (10, -(-width // block) * bits // 8)).astype(np.uint8)))
    g.op("GatherBlockQuantized", ins, ["y"], bits=bits, block_size=block, quantize_axis=1, gather_axis=0)
    return g.model(floats("y")), g.feed


@case
def gather_blocks_plain(): return gather_blocks()
@case
def gather_blocks_zeros(): return gather_blocks(zeros=True)
@case
def gather_blocks_8(): return gather_blocks(bits=8, zeros=True)


# --- small fusions whose kernels onnxruntime lacks on this device: a plain graph is the reference ----------------------
def expected_bias_add(f): return [f["x"] + f["b"] + f["skip"]]
@case
def bias_add():
    g = Graph()
    g.op("BiasAdd", [g.x("x", rnd(2, 3, 8), ["B", "S", 8]), g.x("b", rnd(8)), g.x("skip", rnd(2, 3, 8, seed=1), ["B", "S", 8])], ["y"])
    return g.model(floats("y")), g.feed, expected_bias_add


def gelu(x):
    import math
    return (x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2.0)))).astype(np.float32)


@case
def bias_split_gelu():
    g = Graph()
    g.op("BiasSplitGelu", [g.x("x", rnd(2, 3, 8), ["B", "S", 8]), g.x("b", rnd(8))], ["y"])
    return g.model(floats("y")), g.feed, lambda f: [(f["x"] + f["b"])[..., :4] * gelu((f["x"] + f["b"])[..., 4:])]


@case
def gemm_fast_gelu():
    g = Graph()
    g.op("GemmFastGelu", [g.x("x", rnd(2, 3, 8), ["B", "S", 8]), g.w("w", rnd(8, 6)), g.w("b", rnd(6))], ["y"])

    def expected(f):
        z = f["x"] @ rnd(8, 6) + rnd(6)
        return [0.5 * z * (1 + np.tanh(0.7978845608 * (z + 0.044715 * z ** 3)))]
    return g.model(floats("y")), g.feed, expected


@case
def bias_softmax():
    g = Graph()
    g.op("BiasSoftmax", [g.x("x", rnd(2, 4, 3, 5), ["B", 4, "S", "T"]), g.x("b", rnd(2, 1, 1, 5), ["B", 1, 1, "T"])], ["y"], axis=3, is_inner_broadcast=1)

    def expected(f):
        z = np.exp(f["x"] + f["b"])
        return [z / z.sum(-1, keepdims=True)]
    return g.model(floats("y")), g.feed, expected


def relative_bias(both):
    g = Graph()
    table = rnd(4, 32)  # stored by heads, declared by bins
    g.x("x", rnd(2, 40, 8), ["B", "S", 8]), g.w("table", table.reshape(32, 4)), g.w("one", np.array([1], np.int64))
    g.op("Shape", ["x"], ["shape"], domain=""), g.op("Gather", ["shape", "one"], ["length"], domain="")
    g.op("RelativePositionBias", ["table", "length", "length"], ["y"], is_bidirectional=both, max_distance=20)

    def expected(_):
        d = np.arange(40)[None] - np.arange(40)[:, None]
        bins = 16 if both else 32
        first, exact = (bins * (d > 0) if both else 0), bins // 2
        d = np.abs(d)
        far = exact + (np.log(np.maximum(d, 1) / np.float32(exact)) / np.log(20 / exact) * (bins - exact)).astype(np.int64)
        return [table[:, first + np.where(d < exact, d, np.minimum(far, bins - 1))][None]]
    return g.model(floats("y")), g.feed, expected


@case
def relative_bias_encoder(): return relative_bias(1)
@case
def relative_bias_decoder(): return relative_bias(0)


# --- roles: a decoder around each fused attention; every weight is named after its role ------------------------------------
ROLES = {}
HIDDEN, HEADS, KV, SIZE, VOCAB = 64, 4, 2, 16, 96


class Decoder(Graph):
    def linear(self, x, name, k, n, bits=0):
        r = np.random.default_rng(sum(map(ord, name)) + k)
        if bits:
            packed = self.w(name, r.integers(0, 256, (n, k // 32, 16)).astype(np.uint8))
            scales = self.w(name + ".scales", (0.01 + 0.02 * r.random((n, k // 32))).astype(np.float32))
            self.op("MatMulNBits", [x, packed, scales], [name + ".y"], N=n, K=k, bits=4, block_size=32)
        else:
            self.op("MatMul", [x, self.w(name, (r.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32))], [name + ".y"], domain="")
        return name + ".y"

    def plain(self, kind, ins, out, **attrs):
        self.op(kind, ins, [out], domain="", **attrs)
        return out

    def tables(self):
        angle = np.arange(32)[:, None] * (0.3 ** np.arange(SIZE // 2))[None]
        return self.w("cos", np.cos(angle).astype(np.float32)), self.w("sin", np.sin(angle).astype(np.float32))

    def build(self, attention, bits=0, opset=17):
        """Embedding, one block with `attention(self, x)` between norms, gated ffn, head."""
        self.x("ids", np.array([[5, 7, 11, 13, 2], [1, 90, 3, 4, 8]], np.int64), ["B", "S"])
        r = rnd(VOCAB, HIDDEN, seed=9)
        table, gain = self.w("embedding", r), self.w("gain", np.ones(HIDDEN, np.float32))
        x = self.plain("Gather", [table, "ids"], "x")
        norm = self.plain("LayerNormalization", [x, gain], "norm")
        out = self.linear(attention(self, norm), "output", HIDDEN, HIDDEN, bits)
        self.op("SkipSimplifiedLayerNormalization", [out, x, gain], ["norm.2", "", "", "x.2"], epsilon=1e-5)
        gate = self.linear("norm.2", "ffn.gate", HIDDEN, 96, bits)
        self.op("QuickGelu", [gate], ["gate"], alpha=1.0)
        wide = self.plain("Mul", ["gate", self.linear("norm.2", "ffn.up", HIDDEN, 96, bits)], "wide")
        self.op("SkipSimplifiedLayerNormalization", [self.linear(wide, "ffn.down", 96, HIDDEN, bits), "x.2", gain], ["norm.3"], epsilon=1e-5)
        y = self.linear("norm.3", "head", HIDDEN, VOCAB, bits)
        return self.model(floats(y), opset=opset), self.feed


def roles(f):
    ROLES[f.__name__] = f
    return f


def project(d, x, kv=KV, bits=0):
    return d.linear(x, "query", HIDDEN, HIDDEN, bits), d.linear(x, "key", HIDDEN, kv * SIZE, bits), d.linear(x, "value", HIDDEN, kv * SIZE, bits)


@roles
def roles_packed():
    def attention(d, x):
        w, b = d.w("qkv", rnd(HIDDEN, 3 * HIDDEN) / 8), d.w("qkv.bias", rnd(3 * HIDDEN))
        d.op("Attention", [x, w, b], ["context"], num_heads=HEADS, unidirectional=1)
        return "context"
    return Decoder().build(attention)


@roles
def roles_multi_head():
    def attention(d, x):
        d.op("MultiHeadAttention", [*project(d, x, HEADS), d.w("bias", rnd(3 * HIDDEN))], ["context"], num_heads=HEADS, unidirectional=1)
        return "context"
    return Decoder().build(attention)


def grouped(bits):
    def attention(d, x):
        pasts = [d.x(n, rnd(2, KV, 0, SIZE), ["B", KV, "P", SIZE]) for n in ("past_k", "past_v")]
        lengths, total = d.x("seqlens", np.full((2,), 4, np.int32), ["B"]), d.x("total", np.array(5, np.int32), [])
        d.op("GroupQueryAttention", [*project(d, x, bits=bits), *pasts, lengths, total, *d.tables()], ["context", "present_k", "present_v"],
             num_heads=HEADS, kv_num_heads=KV, do_rotary=1)
        return "context"
    return attention


@roles
def roles_genai():
    """As onnxruntime-genai writes it: the lengths follow from an attention mask whose length has a name of its own."""
    def attention(d, x):
        pasts = [d.x(n, rnd(2, KV, 3, SIZE), ["B", KV, "past_length", SIZE]) for n in ("past_k", "past_v")]
        d.x("attention_mask", np.ones((2, 8), np.int64), ["B", "total_length"])
        one = d.w("one", np.array([1], np.int64))
        d.plain("ReduceSum", ["attention_mask", one], "mask.sum", keepdims=0)
        d.plain("Cast", [d.plain("Sub", ["mask.sum", one], "mask.less")], "lengths", to=T.INT32)
        d.plain("Gather", [d.plain("Shape", ["attention_mask"], "mask.shape"), d.w("axis", np.array(1, np.int64))], "mask.length", axis=0)
        d.plain("Cast", ["mask.length"], "total", to=T.INT32)
        d.op("GroupQueryAttention", [*project(d, x, bits=4), *pasts, "lengths", "total", *d.tables()], ["context", "present_k", "present_v"],
             num_heads=HEADS, kv_num_heads=KV, do_rotary=1, local_window_size=6)
        return "context"
    return Decoder().build(attention, bits=4)


@roles
def roles_grouped(): return Decoder().build(grouped(0))
@roles
def roles_grouped_few_bits(): return Decoder().build(grouped(4), bits=4)


@roles
def roles_grouped_one_weight():
    def attention(d, x):
        qkv = d.linear(x, "qkv", HIDDEN, (HEADS + 2 * KV) * SIZE)
        lengths, total = d.x("seqlens", np.full((2,), 4, np.int32), ["B"]), d.x("total", np.array(5, np.int32), [])
        pasts = [d.x(n, rnd(2, KV, 0, SIZE), ["B", KV, "P", SIZE]) for n in ("past_k", "past_v")]
        d.op("GroupQueryAttention", [qkv, "", "", *pasts, lengths, total, *d.tables()], ["context", "present_k", "present_v"], num_heads=HEADS,
             kv_num_heads=KV, do_rotary=1)
        return "context"
    return Decoder().build(attention)


def standard(mask=False, heads_first=False):
    def attention(d, x):
        q, k, v = project(d, x)
        cos, sin = d.tables()
        row = np.arange(5, dtype=np.int64)[None].repeat(2, 0)
        d.x("positions", row, ["B", "S"])
        if heads_first:
            for n, heads in (("q", HEADS), ("k", KV), ("v", KV)):
                x = {"q": q, "k": k, "v": v}[n]
                d.plain("Reshape", [x, d.w(n + ".shape", np.array([0, 0, heads, SIZE]))], n + ".apart")
                d.plain("Transpose", [n + ".apart"], n + ".heads", perm=[0, 2, 1, 3])
            q, k, v = "q.heads", "k.heads", "v.heads"
        q = d.plain("RotaryEmbedding", [q, cos, sin, "positions"], "q.rotary", **({} if heads_first else {"num_heads": HEADS}))
        k = d.plain("RotaryEmbedding", [k, cos, sin, "positions"], "k.rotary", **({} if heads_first else {"num_heads": KV}))
        ins = [q, k, v]
        if mask:
            ins.append(d.x("mask", np.tril(np.ones((2, 1, 5, 5), bool)), ["B", 1, "S", "S"]))
        heads = {} if heads_first else {"q_num_heads": HEADS, "kv_num_heads": KV}
        y = d.plain("Attention", ins, "context", is_causal=int(not mask), **heads)
        if heads_first:
            d.plain("Transpose", [y], "context.rows", perm=[0, 2, 1, 3])
            y = d.plain("Reshape", ["context.rows", d.w("whole", np.array([0, 0, HIDDEN]))], "context.whole")
        return y
    return attention


@roles
def roles_standard(): return Decoder().build(standard(), opset=23)
@roles
def roles_standard_mask(): return Decoder().build(standard(mask=True), opset=23)
@roles
def roles_standard_heads(): return Decoder().build(standard(heads_first=True), opset=23)
@roles
def roles_standard_heads_mask(): return Decoder().build(standard(mask=True, heads_first=True), opset=23)


# --- refusals: the message must hold these words ---------------------------------------------------------------------------
REFUSED = {}


def refused(*words):
    def put(f):
        REFUSED[f.__name__] = (f, words)
        return f
    return put


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


# --- runner ---------------------------------------------------------------------------------------------------------------------
TRACT = """
import os, sys
os.environ.setdefault("RUST_BACKTRACE", "0")
import numpy as np, tract
model = tract.nnef().with_tract_extra().with_tract_transformers().load(sys.argv[1])
names = [model.input_name(i) for i in range(model.input_count())]
x = dict(np.load(sys.argv[2]))
run = model.into_runnable()
feed = [x[n] for n in names] if set(names) <= set(x) else list(x.values())
np.savez(sys.argv[3], **{f"o{i:02d}": o.to_numpy() for i, o in enumerate(run.run(feed))})
"""


def sh(*cmd):
    r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, timeout=300)
    return r.returncode, (r.stderr.strip().splitlines() or [""])[-1]


def reference(model, feed):
    options = ORT.SessionOptions()
    options.log_severity_level = 4
    return ORT.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def difference(got, want):
    if len(got) != len(want):
        return f"{len(got)} outputs, expected {len(want)}"
    for i, (a, b) in enumerate(zip(got, want)):
        if a.shape != b.shape:
            return f"output {i}: shape {a.shape}, expected {b.shape}"
        scale = max(float(np.linalg.norm(b.astype(np.float64))), 1e-6)
        err = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64))) / scale
        if not err <= TOLERANCE:
            return f"output {i}: relative error {err:.2e}"
    return None


def check(quern, name, tract, folder):
    made = CASES[name]()
    model, feed = made[:2]
    try:
        want = made[2](feed) if len(made) > 2 else reference(model, feed)
    except Exception as e:
        return [f"onnxruntime: {str(e).splitlines()[0][:200]}"]
    path, x, y, arc = (f"{folder}/{name}{s}" for s in (".onnx", ".in.npz", ".out.npz", ".nnef.tgz"))
    onnx.save(model, path)
    np.savez(x, **feed)
    faults = []
    code, err = sh(quern, "run", path, "--input", x, "-o", y)
    fault = err if code else difference(list(np.load(y).values()), want)
    if fault:
        faults.append(f"run: {fault}")
    if not tract:
        return faults
    code, err = sh(quern, "compile", path, "-o", arc, "--bits", "32", "--embedding-bits", "32")
    if code:
        return faults + [f"compile: {err}"]
    code, err = sh(sys.executable, "-c", TRACT, arc, x, y)
    fault = err if code else difference(list(np.load(y).values()), want)
    return faults + ([f"tract: {fault}"] if fault else [])


def check_roles(quern, name, folder):
    model, feed = ROLES[name]()
    path, x, y, arc = (f"{folder}/{name}{s}" for s in (".onnx", ".in.npz", ".out.npz", ".nnef.tgz"))
    onnx.save(model, path)
    np.savez(x, **feed)
    r = subprocess.run([quern, "inspect", path, "--json"], capture_output=True, text=True, timeout=300)
    if r.returncode:
        return [f"inspect: {r.stderr.strip()}"]
    got = {layer["weight"]: layer["role"] for layer in json.loads(r.stdout)["layers"]}
    names = [c.name for c in model.graph.initializer if c.name.split(".")[0] in ("query", "key", "value", "qkv", "output", "ffn", "head", "embedding")]
    names = [n for n in names if not n.endswith(("scales", "bias"))]
    names += [c.name for c in model.graph.initializer if c.name in ("cos", "sin")]  # no layer's, so never stored in few bits
    faults = [f"{n} has the role {got.get(n)}" for n in names if got.get(n) != (None if n in ("cos", "sin") else n.split(".")[0])]
    want = reference(model, feed)
    for flags, least in ((["--bits", "32", "--embedding-bits", "32"], 0.999999), ([], 0.9)):
        code, err = sh(quern, "compile", path, "-o", arc, *flags)
        code, err = (code, err) if code else sh(sys.executable, "-c", TRACT, arc, x, y)
        if code:
            faults.append(f"compile {flags}: {err}")
            continue
        a, b = list(np.load(y).values())[0].astype(np.float64).ravel(), want[0].astype(np.float64).ravel()
        cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        if not cosine >= least:
            faults.append(f"compile {flags}: cosine {cosine:.6f}")
    return faults


def check_refused(quern, name, folder):
    f, words = REFUSED[name]
    model, _ = f()
    path = f"{folder}/{name}.onnx"
    onnx.save(model, path)
    code, err = sh(quern, "compile", path, "-o", f"{folder}/{name}.nnef.tgz")
    if code != 1:
        return [f"exit {code}, expected 1: {err}"]
    return [f"the message lacks '{w}': {err}" for w in words if w not in err]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--only", default="")
    ap.add_argument("--no-tract", action="store_true")
    a = ap.parse_args()
    quern, bad, n = os.environ["QUERN"], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in [c for c in (*CASES, *ROLES, *REFUSED) if a.only in c]:
            if name in CASES:
                faults = check(quern, name, not a.no_tract, folder)
            else:
                faults = (check_roles if name in ROLES else check_refused)(quern, name, folder)
            n += 1
            bad += bool(faults)
            for f in faults:
                print(f"{name}: {f}", flush=True)
    print(f"{n - bad} of {n} cases agree")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
