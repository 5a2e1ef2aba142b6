"""What a training command tells its user in one line."""


class FinetuneError(Exception):
    """The message says what came, what was expected and what to do."""
