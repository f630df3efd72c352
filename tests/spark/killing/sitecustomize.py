"""Ends a whole session of processes at one named point of the engine.

Python imports this module at start-up when its folder is on PYTHONPATH, in the driver and in every
worker. KILL_AT holds JSON: the ``module`` and ``function`` to wrap, ``when`` ("before" or "after"
the call), ``call`` (which one, counted over all processes), ``argument`` (a pattern the arguments'
text must match) and ``marker``, the file that says it happened, and lets it happen only once.

A point that is not there ends the process at once: Python would go on without this module, and the
test would wait for a death that cannot come.
"""

import functools
import importlib
import json
import os
import re
import signal
import sys
import traceback
from pathlib import Path


def wrap(point):
    owner = importlib.import_module(point["module"])
    *outer, name = point["function"].split(".")
    for each in outer:
        owner = getattr(owner, each)
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        matches = re.search(point["argument"], str(args)) and counted(point)
        if matches and point["when"] == "before":
            end(point)
        result = original(*args, **kwargs)
        if matches and point["when"] == "after":
            end(point)
        return result

    setattr(owner, name, wrapped)
    # Modules that were loaded with it have names of their own for a function.
    for module in [*sys.modules.values()]:
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, wrapped)


def counted(point):
    """Whether this is the call that was asked for."""
    with Path(point["marker"] + ".calls").open("ab") as calls:
        calls.write(b".")
        calls.flush()
        return calls.tell() >= point["call"]


def end(point):
    try:
        with Path(point["marker"]).open("x") as marker:
            marker.write(f"{point['function']} in process {os.getpid()}\n")
    except FileExistsError:
        return
    # No other thread of this process runs between the signals, and the driver, which leads the
    # session, gets one before the JVM: else it sees that the JVM is gone, and exits by itself.
    sys.setswitchinterval(3600)
    session = os.getsid(0)
    others = {*processes(session)} - {os.getpid()}
    for pid in sorted(others, key=lambda pid: pid != session):
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def processes(session):
    """The processes of a session."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                # The session is the sixth field; the second may hold spaces in its parentheses.
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                yield int(path.name)


if "KILL_AT" in os.environ:
    try:
        wrap(json.loads(os.environ["KILL_AT"]))
    except (ImportError, AttributeError):
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
