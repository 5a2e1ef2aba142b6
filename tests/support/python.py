"""A new Python process, and what it has imported."""

import json
import os
import subprocess
import sys


def modules_after(statement: str, **environment: str) -> set[str]:
    """What a new Python has imported after the statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))
