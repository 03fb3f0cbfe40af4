# Configuration files: what is printed, what wins, what is refused.
quern compile --print-config
echo '{"bit": {"query_act_bits": 16, "mixedPrecisionApply": true, "layers": {"a.*": {"weightBits": 4}}}, "calibration": {"method": 2}}' > a.json
echo '{"calibration": {"maxPercentile": {"percentile": 0.99}, "method": 3}, "bit": {"layers": {"b": {"actBits": 8}}}}' > b.json
quern compile --print-config --config a.json --config b.json > all.json; echo "status $?"
quern compile --print-config --config all.json | cmp - all.json && echo same
quern compile --print-config --method 0 --config a.json --layer a.*=8 > c.json; quern compile --print-config --config a.json --layer a.*=8 --method 0 | cmp - c.json && echo same
grep -E '"method"|"queryActBits"|"a\.\*"' c.json
echo '{"bit": {"queryActBit": 8}}' > bad.json; quern compile m.onnx -o o --config bad.json; echo "status $?"
echo '{"bit": {"queryActBits": "8"}}' > bad.json; quern compile m.onnx -o o --config bad.json; echo "status $?"
echo '{"calibration": {"histogram": {"percentile": 1.5}}}' > bad.json; quern compile m.onnx -o o --config bad.json; echo "status $?"
echo '{"bit": {"queryActBits": 8, "queryActBits": 8}}' > bad.json; quern compile m.onnx -o o --config bad.json; echo "status $?"
echo '{"bit": {}} // done' > bad.json; quern compile m.onnx -o o --config bad.json; echo "status $?"
echo '{"calibration": {"actScaleMin": NaN}}' > bad.json; quern compile m.onnx -o o --config bad.json; echo "status $?"
quern compile m.onnx -o o --config absent.json; echo "status $?"
quern compile $MODELS/bytellama/model.onnx -o o --load-bits absent.json; echo "status $?"
echo '{"format": "quern-allocation", "version": 1, "model": {"fingerprint": "0"}, "layers": [{"name": "a", "weightBit": 4, "weightBits": 4, "actBits": 8}]}' > bits.json
quern compile $MODELS/bytellama/model.onnx -o o --load-bits bits.json; echo "status $?"
ls
