"""The language model of CosyVoice 2 and 3 for TensorRT-LLM."""
