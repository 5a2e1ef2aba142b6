"""The vocoder: mel frames to samples by a neural source filter and an inverse STFT."""
