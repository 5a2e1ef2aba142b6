"""Teach a model directory: prepare recordings, fine-tune its networks, prefer, reward, distil the flow.

Needs the extra `train`. Nothing here knows the built-in voice or its recipe; the recipe uses the losses of
this package.
"""
