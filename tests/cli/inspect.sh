quern inspect "$MODELS/bytellama/model.onnx"
