"""Measurements whose results stand in docs/LOG.md."""
