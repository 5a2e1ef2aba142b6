"""Choose which runtime runs each part of a checkpoint, as it is set or as the runtimes themselves say."""

from collections.abc import Sequence
from dataclasses import dataclass

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.runtimes.interface import BackendError, Machine, Part, Runtime

__all__ = ["Backend", "BackendError", "choose"]


@dataclass(frozen=True, slots=True)
class Backend:
    """The runtime of a part. name: the value of the setting that asks for it."""

    name: str
    reason: str
    runtime: Runtime


def choose(
    part: Part, asked: str, runtimes: Sequence[Runtime], machine: Machine, checkpoint: Checkpoint
) -> Backend:
    """Ask the runtimes in their order. asked: FIRSTWORD_BACKEND, or FIRSTWORD_FLOW_BACKEND; may be "auto".

    Raises BackendError where the one that is asked for, or that takes the part, cannot run it here.
    """
    why_not = ""
    for runtime in runtimes:
        answers = runtime.provides.get(part, ())
        if not answers or asked not in ("auto", *answers):
            continue
        if asked != runtime.name:
            declined = runtime.declines(part, machine, checkpoint)
            if declined is not None:
                why_not = why_not or declined
                continue
        refusal = runtime.refusal(machine, checkpoint)
        if refusal is not None:
            raise BackendError(refusal)
        if asked != "auto":
            return Backend(asked, "as set", runtime)
        return Backend(answers[0], runtime.reason or why_not, runtime)
    raise AssertionError(f"no runtime answers to {asked!r} for {part}")
