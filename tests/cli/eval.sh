# eval: its usage, samples that do not fit, what it prints of a model, and layers from the most damaged on.
m=$MODELS/bytellama/model.onnx
quern eval $m; echo "status $?"
quern eval $m --eval nowhere.npz; echo "status $?"
$PYTHON - <<'END'
import numpy as np
np.savez("good.npz", input_ids=np.arange(40, 64).reshape(2, 12), attention_mask=np.ones((2, 12), np.int64))
np.savez("bad.npz", ids=np.arange(40, 64).reshape(2, 12))
END
quern eval $m --eval bad.npz; echo "status $?"
quern eval $m --eval good.npz --bits 8 --act-bits 8 --calib good.npz --outputs out.npz --json > report.json; echo "status $?"
$PYTHON - <<'END'
import json, numpy as np
report = json.load(open("report.json"))
output, layers = report["outputs"][0], report["layers"]
sqnr = [l["sqnrDb"] for l in layers if l["sqnrDb"] is not None]
print(report["samples"], [o["name"] for o in report["outputs"]], len(layers), sorted(layers[0]))
print("good output", output["cosine"] > 0.99, 0 < output["klBits"] < 0.1, "ordered", sqnr == sorted(sqnr), "roles", sorted({l["role"] for l in layers}))
print("written", {k: v.shape for k, v in np.load("out.npz").items()})
END
# float widths: what is left is that the engine sums in another order
quern eval $m --eval good.npz --bits 32 --embedding-bits 32 | head -3 | sed -E '3s/ +1[0-9]{2}[.][0-9]+ .* logits/ over 100 dB, logits/'
ls
