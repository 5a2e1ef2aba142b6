"""The command line of `firstword.bench.random_checkpoint`."""

import argparse
from pathlib import Path
from typing import get_args

from firstword.bench.random_checkpoint import Size, WeightsFormat, write_random_checkpoint
from firstword.models.config import Family


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m firstword.bench.random_checkpoint",
        description="Write a model directory in the published layout with random weights.",
    )
    parser.add_argument("--family", required=True, choices=get_args(Family))
    parser.add_argument("--size", required=True, choices=get_args(Size))
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--format", default="pt", choices=get_args(WeightsFormat))
    parser.add_argument("out", type=Path, metavar="OUT", help="a new or empty directory")
    arguments = parser.parse_args()
    try:
        write_random_checkpoint(
            arguments.out, arguments.family, arguments.size, arguments.seed, arguments.format
        )
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
