"""What can go wrong in front of the networks."""


class FrontendError(ValueError):
    """A front end file is missing, broken or not what was published; the message names it."""


class PromptError(FrontendError):
    """A recording cannot serve as a prompt or a source; the message says why and what to do."""


class ModeError(FrontendError):
    """A model family or a speaker cannot serve the requested mode."""
