"""The language model of CosyVoice 2 and 3 inside vLLM.

`export` and `sampling_state` need no vLLM; vLLM loads `model`, `sampler` and `plugin` by itself.
"""
