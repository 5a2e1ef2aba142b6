"""Networks that only the recipe needs; the built-in voice gets two of them as ONNX files."""
