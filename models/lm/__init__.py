"""The speech-token language models: text in, speech tokens out."""
