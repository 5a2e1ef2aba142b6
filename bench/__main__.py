"""`python -m bench NAME …`: one measurement, or all of the standard set."""

import sys
from importlib import import_module
from typing import Final

MEASUREMENTS: Final = {
    "all": (
        "firstword.bench.standard",
        "the standard set, in under a quarter of an hour, and the table of targets",
    ),
    "latency": ("firstword.bench.latency", "a running server under load: first audio, gaps, goodput"),
    "stages": ("firstword.bench.stages", "what each stage costs along an utterance, without a server"),
    "compare": ("firstword.bench.compare", "two settings or two commands in turn, their median ratio"),
    "soak": ("firstword.bench.soak", "a thousand short streams, and what they leave behind"),
    "constancy": (
        "firstword.bench.constancy",
        "the chunks around second 60 of a stream against those around second 2",
    ),
    "cancels": ("firstword.bench.cancels", "how soon a cancelled stream is gone"),
    "first_words": (
        "firstword.bench.first_words",
        "text that comes token by token: from its first token to the first sound",
    ),
    "token_generators": ("firstword.bench.token_generators", "speech tokens a second: torch against vLLM"),
    "distances": ("firstword.bench.distances", "how far 8 bits move what the networks say"),
    "networks": ("firstword.bench.networks", "the networks at their published sizes, with random weights"),
    "gpu": (
        "firstword.bench.gpu.kit",
        "everything of a GPU in one run of nine minutes, beside the published H100 table",
    ),
    "upstream": (
        "firstword.bench.upstream",
        "the published code beside this program: one checkpoint, one text, in turn",
    ),
    "peers": (
        "firstword.bench.peers",
        "other engines on the same texts in turn: first audio, compute, words, sound, memory",
    ),
    "reading": (
        "firstword.bench.reading",
        "how many cases of numbers, dates and the like are read right, by class",
    ),
    "structure": (
        "firstword.bench.structure",
        "files, functions and imports that a reader meets, for any checkout",
    ),
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in MEASUREMENTS:
        lines = [f"  {known:16} {what}" for known, (_, what) in MEASUREMENTS.items()]
        print("python -m bench NAME [--help]", *lines, sep="\n", file=sys.stderr)
        return 2
    module = import_module(MEASUREMENTS[name][0])
    return int(module.main(sys.argv[2:]) or 0)


if __name__ == "__main__":
    sys.exit(main())
