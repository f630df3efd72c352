"""Which machine and process this is, and whether another process of the machine still runs."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path


def this_machine() -> str:
    """What tells this machine's processes from others of the same numbers: also of a container."""
    found = [socket.gethostname()]
    # There where the system is Linux.
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:32]


def started_at(process: int) -> str | None:
    """When a process was started, by its system's own count; None where there is none.

    Empty where the system does not say it.
    """
    try:
        # The name of its program, in brackets, may have brackets too.
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
        state, *others = text.rpartition(")")[2].split()
        # One that has ended stays until its parent has asked how.
        return None if state in "ZX" else others[18]
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _started_elsewhere(process)
    except ProcessLookupError:
        return None


def _started_elsewhere(process: int) -> str | None:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        # It is there, and another user's.
        return ""
    return ""
