"""Attack a server, one attack after the other, and print what it noticed of each.

    python -m tests.hostile [--seconds 10] [--checkpoint DIR] [ATTACK ...]
    python -m tests.hostile kills [--count 100]

Without a checkpoint it is a server over fakes. Twelve attacks of 10 s are two minutes; `--seconds 275` makes
it an hour. The server and the attacker are processes of their own, on a core each where there are two.
Meanwhile texts are spoken one after the other; the longest wait for a chunk is the gap.

`kills` ends a process that writes into its stores so many times, and prints what was lost.
"""

import argparse
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.hostile.attacks import ATTACKS
from tests.hostile.harness import victim
from tests.hostile.kills import kill


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(ATTACKS)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {names}; all by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each runs")
    parser.add_argument("--checkpoint", help="that speaks, such as models/builtin")
    parser.add_argument("--count", type=int, default=100, help="of kills")
    given = parser.parse_args()
    if given.attacks == ["kills"]:
        sys.exit(kills(given.count))
    unknown = sorted(set(given.attacks) - set(ATTACKS))
    if unknown:
        parser.error(f"unknown attack {unknown[0]!r}; there are {names}")
    failed = False
    with victim(given.checkpoint) as server:
        unattacked = server.attacked(None, given.seconds)
        for name in [None, *(given.attacks or ATTACKS)]:
            outcome = unattacked if name is None else server.attacked(name, given.seconds)
            faults = outcome.faults(unattacked)
            failed |= bool(faults)
            print(  # noqa: T201
                f"{outcome.attack:18} lag p99 {outcome.lag_p99_s:.3f} s, max {outcome.lag_max_s:.3f} s, "
                f"memory {outcome.grown_mb:+.1f} MB, gap {outcome.gap_s:.2f} s, {outcome.answers} answers, "
                f"{outcome.lost_calls} calls lost" + "".join(f"\n    MISSED: {fault}" for fault in faults),
                flush=True,
            )
    sys.exit(failed)


def kills(count: int) -> bool:
    """Return whether something was lost."""
    with TemporaryDirectory() as directory:
        done = kill(Path(directory), count, random.Random(count))
    print(  # noqa: T201
        f"{done.kills} kills, {done.acknowledged} writes acknowledged, {len(done.faults)} times lost or "
        f"half, {done.unacknowledged} times one more was there"
        + "".join(f"\n    MISSED: {one}" for one in done.faults)
    )
    return bool(done.faults)


if __name__ == "__main__":
    main()
