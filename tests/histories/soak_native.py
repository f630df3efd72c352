"""``python soak_native.py MINUTES SEED FOLDER``: histories until the time is up."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import Any

from generate import history
from history import History
from session import Session
from trial import Figures, WrongError, run


def soak(session: Session, minutes: float, seed: int, folder: Path, say: Any = print) -> int:
    """Run histories from ``seed`` on; how many were wrong. Theirs are lines of failures.jsonl."""
    ends, told, wrong, total = time.monotonic() + 60 * minutes, time.monotonic(), 0, Figures()
    number = seed
    while time.monotonic() < ends:
        try:
            total.add(run(session, folder / f"history{number}", history(number, processes=True)))
        except Exception as error:
            wrong += 1
            text = str(error) if isinstance(error, WrongError) else traceback.format_exc()
            with (folder / "failures.txt").open("a") as file:
                file.write(f"--- seed {number}\n{text}\n{history(number, processes=True).text()}\n")
            say(f"seed {number}: {text.splitlines()[0][:300]}", flush=True)
        number += 1
        if time.monotonic() - told > 60:
            told = time.monotonic()
            say(f"{number - seed} histories, {vars(total)}, {wrong} wrong", flush=True)
    say(f"END {number - seed} histories, {vars(total)}, {wrong} wrong", flush=True)
    return wrong


def main() -> None:
    folder = Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(folder / "warehouse")
    if sys.argv[2].startswith("{"):
        sys.stdout.write(f"{run(session, folder / 'again', History.of(sys.argv[2]))}\n")
    else:
        sys.exit(bool(soak(session, float(sys.argv[1]), int(sys.argv[2]), folder)))


if __name__ == "__main__":
    main()
