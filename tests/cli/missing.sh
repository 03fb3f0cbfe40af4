# A model that is not there, is a folder, is empty or is no ONNX: status 1, nothing written.
quern compile absent.onnx -o out.nnef.tgz; echo "status $?"
mkdir folder.onnx
quern compile folder.onnx -o out.nnef.tgz; echo "status $?"
: >empty.onnx
quern compile empty.onnx -o out.nnef.tgz; echo "status $?"
echo "this is text, not a model" >text.onnx
quern compile text.onnx -o out.nnef.tgz; echo "status $?"
head -c 1000000 "$MODELS/bytellama/model.onnx" >cut.onnx
quern compile cut.onnx -o out.nnef.tgz; echo "status $?"
quern compile "$MODELS/bytellama/model.onnx" -o no/such/folder/out.nnef.tgz; echo "status $?"
ls
