"""The recipe that made the built-in voice. It uses the networks of `models/`; nothing imports it."""
