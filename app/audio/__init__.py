"""Between float32 samples and encoded bytes, both ways. No I/O, no event loop, nothing else of ours."""
