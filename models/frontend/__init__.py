"""From a recording to speech tokens, speaker embedding and prompt mel, and from a request to model input."""
