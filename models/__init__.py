"""The networks of CosyVoice 1, 2 and 3; knows nothing of HTTP, requests or threads."""
