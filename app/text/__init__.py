"""The text step: text in, segments with their text tokens out. Pure functions, no I/O."""
