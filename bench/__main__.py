"""Runs one program of `python -m bench`."""

import sys
from importlib import import_module
from typing import Final

MEASUREMENTS: Final = {
    "load": ("", "a running server under load; the same as `firstword bench`"),
    "stages": ("firstword.bench.stages", "what each stage costs along an utterance, without a server"),
    "report": (
        "firstword.bench.report",
        "load, stages and a thousand short streams on the built-in voice, and the table of targets",
    ),
    "compare": (
        "firstword.bench.compare",
        "two settings, checkouts or commands in turn: speed, memory, start-up as median ratios",
    ),
    "gpu": (
        "firstword.bench.gpu.kit",
        "everything of a GPU in one run of nine minutes, beside the published H100 table",
    ),
    "offline": (
        "firstword.bench.offline",
        "texts into files, so many at once in each back end, beside the published table",
    ),
    "upstream": (
        "firstword.bench.upstream",
        "the published code beside this program: one checkpoint, one text, in turn",
    ),
    "walk": ("firstword.bench.walk", "the functions and files of a checkout that one text passes"),
    "peers": (
        "firstword.bench.peers",
        "other engines on the same texts in turn: first audio, compute, words, sound, memory",
    ),
    "provenance": (
        "firstword.bench.provenance",
        "how often a watermark is found behind codecs, noise, cuts and speeds, and what passes for one",
    ),
    "cluster": (
        "firstword.bench.cluster",
        "a model of 10 to 1,000 servers: first byte, speakers found ready, cost; or two servers beside it",
    ),
    "reading": (
        "firstword.bench.reading",
        "how many cases of numbers, dates and the like are read right, by class",
    ),
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in MEASUREMENTS:
        lines = [f"  {known:16} {what}" for known, (_, what) in MEASUREMENTS.items()]
        print("python -m bench NAME [--help]", *lines, sep="\n", file=sys.stderr)
        return 2
    if name == "load":
        from firstword.app.cli import cli

        cli(["bench", *sys.argv[2:]])
    module = import_module(MEASUREMENTS[name][0])
    return int(module.main(sys.argv[2:]) or 0)


if __name__ == "__main__":
    sys.exit(main())
