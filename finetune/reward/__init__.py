"""Rewards of speech tokens: spoken, recognised, scored; as a library, over HTTP and in tritonserver."""
