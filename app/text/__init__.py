"""Text on its way to the tokenizer: pure functions, no I/O."""
