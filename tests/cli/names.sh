# Names that match nothing are errors with the nearest names; globs stop at components.
m=$MODELS/bytellama/model.onnx
quern compile $m -o o.nnef.tgz --layer '/m/lm_haed/MatMul=8'; echo "status $?"
quern compile $m -o o.nnef.tgz --weight-16bits m.model.embed_tokns.weight; echo "status $?"
quern compile $m -o o.nnef.tgz --set sequ=2; echo "status $?"
ls
# What was read is not overwritten, nor what is no file.
cp $m m.onnx
cp $MODELS/bytellama/calib/sample_00.npz s.npz
echo '{}' >c.json
quern run m.onnx --input s.npz -o s.npz; echo "status $?"
quern run m.onnx --input s.npz -o m.onnx; echo "status $?"
quern run m.onnx --input s.npz -o /dev/null; echo "status $?"
quern eval m.onnx --eval s.npz --outputs s.npz; echo "status $?"
quern compile m.onnx -o o.nnef.tgz --config c.json --save-bits c.json; echo "status $?"
cmp m.onnx $m && cmp s.npz $MODELS/bytellama/calib/sample_00.npz && cat c.json && ls
