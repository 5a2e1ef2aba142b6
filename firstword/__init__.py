"""A low-latency text-to-speech server for CosyVoice-architecture models."""
