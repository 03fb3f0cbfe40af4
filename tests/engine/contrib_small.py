"""Cases of contrib_cases.py: norms, embeddings, products and the small fusions around them."""
import numpy as np
from contrib_graph import Graph, T, case, floats, reference, rnd, without_tail


# --- norms and embeddings ------------------------------------------------------------------------------------------
def skip_norm(kind, bias=False, beta=True, total=False, skip=(2, 5, 32)):
    g = Graph()
    ins = [g.x("x", rnd(2, 5, 32), ["B", "S", 32]), g.x("skip", rnd(*skip, seed=1), (["B", "S", 32] if len(skip) == 3 and skip[0] == 2 else None)),
           g.w("gamma", rnd(32, seed=2))]
    if kind == "SkipLayerNormalization":
        ins.append(g.w("beta", rnd(32, seed=3)) if beta else "")
    if bias:
        ins.append(g.w("b", rnd(32, seed=4)))
    without_tail(ins)
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
    without_tail(ins)
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
    without_tail(ins)
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
