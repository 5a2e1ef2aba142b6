"""Measurements: of a running server, of the networks without one, of two settings against each other.

`python -m bench` names them; docs/performance.md says what they mean, docs/LOG.md what they gave.
"""
