"""Writes text with a compiled byte-level decoder: greedy, byte by byte, in the tract engine, from an empty past.

usage: generate.py ARCHIVE [--prompt TEXT] [--length N]
The archive is of models/bytellama/model-kv.onnx or alike: input_ids, attention_mask, position_ids, then keys and values of the past.
"""
import argparse, sys, time
import numpy as np, tract


def past_shapes(model):
    """Shapes of the past inputs at batch 1 and no tokens: the heads and their width are the dims that are numbers."""
    shapes = []
    for i in range(3, model.input_count()):
        dims = str(model.input_fact(i)).split(",")[:-1]
        shapes.append([1, int(dims[1]), 0, int(dims[3])])
    return shapes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("archive")
    parser.add_argument("--prompt", default="And Jesus answered")
    parser.add_argument("--length", type=int, default=120)
    args = parser.parse_args()
    model = tract.nnef().with_tract_extra().with_tract_transformers().load(args.archive)
    past = [np.zeros(shape, np.float32) for shape in past_shapes(model)]
    runnable = model.into_runnable()
    tokens, seen = list(args.prompt.encode()), 0
    sys.stdout.write(args.prompt)
    start = time.perf_counter()
    for _ in range(args.length):
        total = seen + len(tokens)
        ids = np.array([tokens], np.int64)
        outputs = runnable.run([ids, np.ones((1, total), np.int64), np.arange(seen, total, dtype=np.int64)[None], *past])
        past = [o.to_numpy() for o in outputs[1:]]
        tokens, seen = [int(outputs[0].to_numpy()[0, -1].argmax())], total
        sys.stdout.write(chr(tokens[0]))
        sys.stdout.flush()
    print(f"\n({args.length / (time.perf_counter() - start):.0f} bytes a second)")


if __name__ == "__main__":
    main()
