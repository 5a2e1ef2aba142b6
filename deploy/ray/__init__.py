"""Firstword on Ray Serve."""
