"""The language model of CosyVoice 2 and 3 inside vLLM: its class, its sampling, its converter.

`export` and `draws` need no vLLM; `model`, `sampler` and `plugin` are loaded by vLLM alone.
"""
