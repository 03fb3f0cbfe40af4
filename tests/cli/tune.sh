# tune: its usage, targets that cannot be met, files that are in the way, what it prints, and going on after an interruption.
m=$MODELS/bytellama/model.onnx
quern tune $m; echo "status $?"
quern tune $m -o a.json; echo "status $?"
quern tune $m -o a.json --max-bits 5 --min-cosine 0.99; echo "status $?"
quern tune $m -o a.json --max-size 3XB; echo "status $?"
quern tune $m -o a.json --max-bits none; echo "status $?"
quern tune $m -o a.json --max-bits 0x10; echo "status $?"
quern tune $m -o a.json --max-size infinity; echo "status $?"
quern tune $m -o a.json --min-cosine 1; echo "status $?"
quern tune $m -o a.json --max-bits 5 --load-bits b.json; echo "status $?"
quern tune $m -o a.json --max-bits 5 --check-points 2.5; echo "status $?"
quern tune $m -o a.json --max-bits 5 --check-points -1; echo "status $?"
$PYTHON - <<'END'
import os
import numpy as np
for name, far, rows in (("far", 1000, 2), ("empty", 0, 0)): # of each folder, the second of three is bad
    os.mkdir(name)
    for i in range(3):
        n = rows if i == 1 else 2
        np.savez(f"{name}/{i}.npz", input_ids=np.arange(40, 104).reshape(2, 32)[:n] + far * (i == 1), attention_mask=np.ones((n, 32), np.int64))
np.savez("good.npz", input_ids=np.arange(40, 104).reshape(2, 32), attention_mask=np.ones((2, 32), np.int64))
END
quern tune $m -o a.json --max-bits 5; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --bits 8; echo "status $?"
echo '{"bit": {"loadPath": "b.json"}}' > load.json; quern tune $m -o a.json --max-bits 5 --calib good.npz --config load.json; echo "status $?"
echo '{"bit": {"savePath": "b.json"}}' > save.json; quern tune $m -o a.json --max-bits 5 --calib good.npz --config save.json; echo "status $?"
quern tune $m -o good.npz --max-bits 5 --calib good.npz; echo "status $?"
for samples in far empty; do
  quern tune $m -o a.json --max-bits 5 --calib $samples
  quern eval $m --eval $samples
  quern compile $m -o a.nnef.tar --calib $samples --rounding importance
  quern compile $m -o a.nnef.tar --calib $samples --rounding gptq --quiet
done
quern tune $m -o a.json --max-bits 5 --calib good.npz --check good.npz; echo "status $?"
for samples in nowhere far; do quern tune $m -o a.json --max-bits 5 --calib good.npz --check $samples --check-points 1 --quiet; echo "status $?"; done
quern tune $m -o '' --max-bits 5 --calib good.npz; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --state a.json; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --curve ./a.json; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --curve a.json.partial; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --curve nowhere/c.json; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --report a.html --curve a.html; echo "status $?"
quern tune $m -o a.json --max-bits 5 --calib good.npz --report load.json; echo "status $?"
for kind in "-o notes" "-o a.json --curve notes" "-o a.json --curve was.json" "-o was.curve"; do
  echo precious > notes; echo '{"format":"quern-allocation"}' > was.json; echo '{ "tuning": {} }' > was.curve
  quern tune $m $kind --max-bits 5 --calib good.npz; echo "status $?"; cat notes was.json was.curve
done
quern compile $m -o a.nnef.tar --save-bits notes; echo "status $?"; quern eval $m --eval good.npz --save-bits was.curve; echo "status $?"
: > was.curve; quern tune $m -o was.json --curve was.curve --max-bits 5 --rounding mse --calib good.npz > was.out; echo "status $?"; head -c 30 was.json; echo; head -c 30 was.curve; echo; rm notes was*
quern tune $m -o left.json --max-bits 4 --calib good.npz --bits ffn=4; echo "status $?"; ls left* 2> /dev/null # known before anything is measured
quern tune $m -o left.json --min-cosine 0.9999999 --calib good.npz --bits ffn=4 2> left.err; echo "status $?"; grep -E "keeps|no widths" left.err | cut -c 1-60; ls left*; mv left.json.partial kept; rm left*
for wrong in '99 4 0 0' '0 7 0 0' '1 4 7ff8000000000000 0' '1 4 0 bff0000000000000' '1 4 7ff0000000000000 0' '1 4 0 -1' 'x'; do
  head -1 kept > wrong; echo "$wrong" >> wrong; quern tune $m -o a.json --max-bits 5 --calib good.npz --state wrong --bits ffn=4 2>&1 | cut -c 1-100
done
(cat kept; sed -n 2p kept) > wrong; quern tune $m -o a.json --max-bits 5 --calib good.npz --state wrong --bits ffn=4 2>&1 | cut -c 1-100; rm wrong
quern tune $m -o a.json --max-size 1000 --calib good.npz --state kept --bits ffn=4; echo "status $?"
echo precious > mine
quern tune $m -o a.json --max-bits 5 --calib good.npz --state mine; echo "status $?"
cat mine
cp kept before; quern tune $m -o a.json --max-bits 5.5 --calib good.npz --state kept --bits ffn=4 --layer '/m/model/layers.0/self_attn/q_proj/MatMul=8'; echo "status $?"; cmp kept before && rm before
: > pinkept
quern tune $m -o a.json --max-bits 5.5 --calib good.npz --state pinkept --bits ffn=4 --layer '/m/model/layers.0/self_attn/q_proj/MatMul=8' > first; echo "status $?"
quern tune $m -o b.json --max-bits 5.5 --calib good.npz --bits ffn=4 --layer '/m/model/layers.0/self_attn/q_proj/MatMul=8' --json > second; echo "status $?"
cmp a.json b.json && echo same
$PYTHON - <<'END'
import json
a, r = json.load(open("a.json")), json.load(open("second"))
layers = {l["name"]: l for l in a["layers"]}
print(layers["/m/model/layers.0/self_attn/q_proj/MatMul"]["weightBits"], layers["/m/model/layers.0/self_attn/q_proj/MatMul"]["origin"])
print({l["weightBits"] for l in a["layers"] if l["role"] == "ffn"}, a["rounding"], "origins", sorted({l["origin"] for l in a["layers"]}))
curve = r["tuning"]["curve"]
print("curve", a["tuning"] == r["tuning"], all(x["bytes"] < y["bytes"] and x["error"] > y["error"] for x, y in zip(curve, curve[1:])), r["tuning"]["measure"])
print("chosen", r["tuning"]["chosen"]["bits"] <= 5.5, "fixed", sum(u["fixed"] for u in r["layers"]), "of", len(r["layers"]))
END
quern tune $m -o b.json --max-bits 5.5 --calib good.npz --state pinkept --bits ffn=4 --layer '/m/model/layers.0/self_attn/q_proj/MatMul=8' --json --quiet > /dev/full; echo "status $?"
act="quern tune $m --calib good.npz --rounding mse --state acts --quiet"
$act -o plain.json --act-share 2 --max-bits 8.1; echo "status $?"
$act -o plain.json --max-bits 8.1 > plain; echo "status $?"; $act -o act.json --max-bits 8.1 --act --curve act.curve > act; echo "status $?"; $act -o more.json --max-bits 8.1 --act --act-share 20 > more; echo "status $?"
$act -o pinned.json --max-bits 8.1 --act --act-bits 16 --state pinned > pinned.out; echo "status $?"; $act -o fixed.json --act --bits 8 --max-bits 9 --state fixed > /dev/null; echo "status $?"
quern compile $m -o with.nnef.tar --load-bits act.json --calib good.npz --quiet > /dev/null; quern compile $m -o without.nnef.tar --load-bits act.json --quiet > /dev/null; cmp with.nnef.tar without.nnef.tar && echo "same archive without samples"
$PYTHON - <<'END'
import json
def read(name): return {l["name"]: l for l in json.load(open(name + ".json"))["layers"]}
plain, act, more, pinned, fixed = map(read, ("plain", "act", "more", "pinned", "fixed"))
ints = [n for n, l in act.items() if l["weightForm"] == "i8"]
print("weights as without --act", all(plain[n]["weightBits"] == l["weightBits"] for n, l in act.items()))
print("widths", {act[n]["actBits"] for n in ints}, "scales", all("actScale" in act[n] for n in ints), "others float", all(l["actBits"] > 16 for n, l in act.items() if n not in ints))
print("a larger share", sum(more[n]["actBits"] == 8 for n in ints) > sum(act[n]["actBits"] == 8 for n in ints), "pinned", {pinned[n]["actBits"] for n in ints})
print("weights of 8 bits all", sorted({(l["weightBits"], l["actBits"]) for l in fixed.values() if l["role"] != "embedding"}))
c = json.load(open("act.curve"))
a = c["activations"]
print("limit", a["error"] <= a["limit"], "frontier", all(x[0] < y[0] and x[1] > y[1] for x, y in zip(a["frontier"], a["frontier"][1:])), a["exact"])
print("narrow", a["narrow"] == sum(u["products"] for u in c["layers"] if u.get("actBits") == 8), "chosen", abs(c["tuning"]["chosen"]["error"] - a["error"] - a["limit"]) < 1e-12)
END
$act -o equal.json --max-bits 5.2 --equalize --state equal > /dev/null; $act -o uneven.json --max-bits 5.2 > /dev/null
quern compile $m -o with.nnef.tar --load-bits uneven.json --calib good.npz --equalize --quiet > /dev/null; quern compile $m -o without.nnef.tar --load-bits equal.json --quiet > /dev/null; cmp with.nnef.tar without.nnef.tar && echo "same factors"
# what is stored is what the file says, and within the size that is asked for, constants of the activations and all
stored() { quern compile $m -o size.nnef.tar --load-bits $1.json --calib good.npz --quiet > /dev/null; quern dump size.nnef.tar | tail -1 | cut -c 13-25; }
said() { $PYTHON -c "import json; print(json.load(open('$1.json'))['tuning']['chosen']['bytes'])"; }
for name in plain act equal; do test $(stored $name) -eq $(said $name) && echo "$name: stored as it says"; done
most=$(($(said act) - 1)); $act -o less.json --max-size $most --act > /dev/null; test $(stored less) -eq $(said less) && test $(said less) -le $most && echo "within the size"
# the cosine that was asked for and executed is the one of eval, and what of the activations is too much is taken back where all weights are fixed
for least in 0.9999 0.99999; do
  $act -o least.json --min-cosine $least --act --bits 8 --state fixed > /dev/null
  quern eval $m --load-bits least.json --calib good.npz --eval good.npz --json --quiet > eval.json
  $PYTHON -c "import json; c, e = json.load(open('eval.json'))['outputs'][0]['cosine'], json.load(open('least.json'))['tuning']['chosen']['measured']; print('cosine', c >= $least, abs(1 - c - e) < 2e-9)"
done
rm least.json eval.json
# samples by other names
mkdir order other; $PYTHON - <<'END'
import numpy as np
for i in range(3):
    for name in (f"order/{i}.npz", f"other/{2 - i}.npz"):
        ids = np.arange(40 + 7 * i, 104 + 7 * i + 8 * i).reshape(2, 32 + 4 * i)
        np.savez(name, input_ids=ids, attention_mask=np.ones_like(ids))
END
for samples in order other; do quern tune $m -o $samples.json --max-bits 5.2 --calib $samples --rounding mse --state $samples.state --quiet > $samples.out; done; cmp order.json other.json && cmp order.state other.state && echo "same order"
rm -rf *.nnef.tar order* other* less.json
tail -1 first | cut -c 1-8
ls
