"""Writes the networks as ONNX graphs, for the runtimes that run such graphs, and runs them on a CPU."""
