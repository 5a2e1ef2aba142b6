"""Programs that measure speed: of a running server, of its stages, of two settings or checkouts in turn.

`python -m bench` names them; docs/performance.md says what they mean, docs/LOG.md what they gave.
"""
