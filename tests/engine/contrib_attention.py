"""Cases of contrib_cases.py: the three fused attentions of com.microsoft."""
import numpy as np
from contrib_graph import Graph, T, case, floats, reference, rnd, without_tail


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
    without_tail(ins)
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
    without_tail(ins)
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
    without_tail(ins)
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
