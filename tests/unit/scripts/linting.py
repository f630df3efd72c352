"""Generated scripts under this repository's own linter and formatter."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def ruff(script: Path, *arguments: str) -> str:
    """What ruff has against a script; nothing if it passes."""
    # By its name ruff applies this repository's settings for migrations.
    name = f"migrations/versions/{script.name}"
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", name, "-"]
    text = script.read_text()
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr
