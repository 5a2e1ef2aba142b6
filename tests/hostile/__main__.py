"""Attack a server over fakes, one attack after the other, and print what it noticed of each.

    python -m tests.hostile [--seconds 10] [ATTACK ...]

The server and the attacker are processes of their own, on a core each where there are two. Meanwhile texts
are spoken one after the other; the longest wait for a chunk is the gap.
"""

import argparse
import sys

from tests.hostile.attacks import ATTACKS
from tests.hostile.harness import victim


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    names = ", ".join(ATTACKS)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {names}; all by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each runs")
    given = parser.parse_args()
    unknown = sorted(set(given.attacks) - set(ATTACKS))
    if unknown:
        parser.error(f"unknown attack {unknown[0]!r}; there are {names}")
    failed = False
    with victim() as server:
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


if __name__ == "__main__":
    main()
