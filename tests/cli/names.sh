# Names that match nothing are errors with the nearest names; globs stop at components.
m=$MODELS/bytellama/model.onnx
quern compile $m -o o.nnef.tgz --layer '/m/lm_haed/MatMul=8'; echo "status $?"
quern compile $m -o o.nnef.tgz --weight-16bits m.model.embed_tokns.weight; echo "status $?"
quern compile $m -o o.nnef.tgz --set sequ=2; echo "status $?"
ls
