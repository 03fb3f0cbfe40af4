# --report: names that cannot be, files that are not replaced, failures that leave an older archive, and what is written.
m=$MODELS/bytellama/model.onnx
quern compile $m -o a.nnef.tar --report report.txt; echo "status $?"
quern compile $m -o a.nnef.tar --report nowhere/report.html; echo "status $?"
quern compile $m -o report.html --report report.html; echo "status $?"
mkdir folder.html; quern compile $m -o a.nnef.tar --report folder.html; echo "status $?"
echo '{"bit": {}}' > mine.json; quern compile $m -o a.nnef.tar --config mine.json --report mine.json; echo "status $?"; cat mine.json
cp $m model.html; quern compile model.html -o a.nnef.tar --report model.html; echo "status $?"; cmp model.html $m
quern compile $m -o a.nnef.tar --report r.json --save-bits r.json; echo "status $?"
$PYTHON - <<'EOF'
import numpy as np
np.savez("bad.npz", ids=np.arange(8).reshape(1, 8))
np.savez("good.npz", input_ids=np.arange(40, 64).reshape(2, 12), attention_mask=np.ones((2, 12), np.int64))
EOF
echo older > a.nnef.tar; quern compile $m -o a.nnef.tar --calib bad.npz --report r.html; echo "status $?"; cat a.nnef.tar
quern compile $m -o a.nnef.tar --report r.html; quern compile $m -o a.nnef.tar --calib good.npz --report r.json; cp r.json first.json
quern compile $m -o a.nnef.tar --calib good.npz --report r.json && cmp r.json first.json && echo same
quern eval $m --eval good.npz --report e.json > /dev/null
tune="quern tune $m --rounding mse --calib good.npz --state kept --quiet"
$tune -o t.json --max-size 2.3e6 --report t.html > /dev/null; echo "status $?"; $tune -o a.json --max-size 2.3MB --report u.json > /dev/null; echo "status $?"; cmp t.json a.json && echo same
quern compile $m -o a.nnef.tar --load-bits a.json --calib good.npz --report l.json > /dev/null
$PYTHON - <<'EOF'
import json
for name in ("r.json", "e.json", "u.json"):
    r = json.load(open(name))
    print(r["format"], r["version"], r["command"], r["measured"]["executed"], "archive" in r, len(r["layers"]), round(sum(l["share"] for l in r["layers"]), 3))
a, u, l = (json.load(open(name)) for name in ("a.json", "u.json", "l.json"))
print("tuning", a["tuning"] == u["tuning"] == l["tuning"], "sizes", u["sizes"]["weightsAfter"] == l["sizes"]["weightsAfter"], "layers", u["layers"] == [dict(x, origin=y["origin"]) for x, y in zip(l["layers"], u["layers"])])
page = open("t.html").read()
print("page", 'class="curve-ring"' in page, "data", json.loads(page.split('id="data">')[1].split("</script>")[0])["tuning"] == a["tuning"])
EOF
ls
