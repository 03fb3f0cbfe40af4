"""Cases of contrib_cases.py: a decoder around each fused attention; every weight is named after its role."""
import numpy as np
from contrib_graph import Graph, T, floats, rnd, roles


# --- roles: a decoder around each fused attention; every weight is named after its role ------------------------------------
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

    def build(self, attention, bits=0, opset=17, rows=2):
        """Embedding, one block with `attention(self, x)` between norms, gated ffn, head."""
        self.x("ids", np.array([[5, 7, 11, 13, 2], [1, 90, 3, 4, 8]], np.int64)[:rows], ["B", "S"])
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
        pasts = [d.x(n, rnd(1, KV, 3, SIZE), ["B", KV, "past_length", SIZE]) for n in ("past_k", "past_v")]
        d.x("attention_mask", np.ones((1, 8), np.int64), ["B", "total_length"])
        one = d.w("one", np.array([1], np.int64))
        d.plain("ReduceSum", ["attention_mask", one], "mask.sum", keepdims=0)
        d.plain("Cast", [d.plain("Sub", ["mask.sum", one], "mask.less")], "lengths", to=T.INT32)
        d.plain("Gather", [d.plain("Shape", ["attention_mask"], "mask.shape"), d.w("axis", np.array(1, np.int64))], "mask.length", axis=0)
        d.plain("Cast", ["mask.length"], "total", to=T.INT32)
        d.op("GroupQueryAttention", [*project(d, x, bits=4), *pasts, "lengths", "total", *d.tables()], ["context", "present_k", "present_v"],
             num_heads=HEADS, kv_num_heads=KV, do_rotary=1, local_window_size=6)
        return "context"
    return Decoder().build(attention, bits=4, rows=1)


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
