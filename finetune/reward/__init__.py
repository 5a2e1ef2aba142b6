"""Rewards of speech tokens: spoken, recognized, scored; as a library, over HTTP and in tritonserver."""
