"""Networks as one call each, on a CPU: graphs for ONNX Runtime, made from the loaded torch modules."""
