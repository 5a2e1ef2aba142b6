"""Estimator and vocoder as TensorRT engines: export to standard ONNX, build, run."""
