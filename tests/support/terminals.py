"""A command on a terminal of its own, and what that shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Shown:
    """What a screen shows after all that was written to it: as much of a terminal as is needed."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self._row = self._column = 0

    def write(self, text: str) -> None:
        for match in _CONTROL.finditer(text):
            _, number, letter, control, plain = match.groups()
            if plain:
                line = self.lines[self._row].ljust(self._column)
                end = self._column + len(plain)
                self.lines[self._row] = line[: self._column] + plain + line[end:]
                self._column = end
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            elif letter == "A":
                self._row -= int(number or 1)
                assert self._row >= 0
            elif letter == "K":
                self.lines[self._row] = ""
            else:
                assert letter in "mhl", match.group()

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


class Command:
    """``statemigrate`` with these words, on a terminal of 80 columns, in ``folder``."""

    def __init__(self, folder: Path, *words: str, height: int = 40) -> None:
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, 80, 0, 0))
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "statemigrate", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = Shown()
        self.written = ""

    def until(self, text: str, seconds: float = 60.0) -> str:
        """The first whole frame with ``text`` in it.

        A frame may arrive in pieces. It is whole when nothing more comes for a while, which is
        shorter than the time between two frames.
        """
        end = time.monotonic() + seconds
        while text not in self.shown.text or self._more_comes():
            assert time.monotonic() < end, self.shown.text
            if not self._read():
                assert text in self.shown.text, self.shown.text
                break
        return self.shown.text

    def ended(self) -> int:
        """Its exit code, when everything it wrote was read."""
        while self._read():
            pass
        os.close(self._own)
        return self.process.wait(60)

    def _more_comes(self) -> bool:
        return bool(select.select([self._own], [], [], 0.1)[0])

    def _read(self) -> bool:
        try:
            data = os.read(self._own, 1 << 16).decode()
        except OSError:
            # Linux says so when nobody holds the other end any more.
            return False
        self.written += data
        self.shown.write(data)
        return bool(data)
