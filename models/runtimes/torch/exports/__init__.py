"""Parts of the networks as programs of their own: TorchScript, AOTInductor, ONNX."""
