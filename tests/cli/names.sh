# Names that match nothing are errors with the nearest names; globs stop at components.
m=$MODELS/bytellama/model.onnx
quern compile $m -o o.nnef.tgz --layer 'lm_haed.weight=8'; echo "status $?"
quern compile $m -o o.nnef.tgz --weight-16bits 'no/such/layer'; echo "status $?"
quern compile $m -o o.nnef.tgz --set no_such_symbol=2; echo "status $?"
ls
