"""What can be wrong with a model directory."""


class CheckpointError(Exception):
    """A model directory cannot be opened; the message names the file and lists all that is wrong with it."""
