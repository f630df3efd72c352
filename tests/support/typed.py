"""Commands as somebody types them: each in a process and a Spark of its own."""

import shlex
import subprocess
import sys
from pathlib import Path


def typed(command: str, folder: Path) -> str:
    """What a command prints that is typed in a folder; it must go well."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout
