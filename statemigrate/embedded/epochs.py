"""Beginning an epoch in a checkpoint of the embedded engine, also of before there were epochs."""

from __future__ import annotations

import logging
import os
import socket
import threading
from functools import partial

from statemigrate.checkpoint import epochs
from statemigrate.checkpoint.epochs import Epoch
from statemigrate.embedded.layout import VERSIONS, Layout
from statemigrate.errors import CheckpointInUseError, without_credentials
from statemigrate.files.documents import sealed

_FORMAT = 2
BARRIER = 10**18
"""A version that no query reaches. Releases without epochs take its file for state that is further
than Spark's logs, and so refuse a checkpoint whose newer manifests they do not see."""


def claim(layout: Layout) -> Epoch:
    """As `epochs.claim`; the first one shuts releases without epochs out."""
    return epochs.claim(layout.files, first=partial(_raise_barrier, layout))


def _raise_barrier(layout: Layout) -> None:
    says = "written by a release with epochs; older ones cannot go on from here"
    document = {"format": _FORMAT, "version": BARRIER, "says": says}
    try:
        layout.files.create(f"{VERSIONS}/{BARRIER}.json", sealed(document))
    except FileExistsError:
        # Also of one who was killed before its epoch.
        return


# A sign of life of the query that runs on a remote checkpoint, for commands that need it stopped.
#
# A lock on a local disk says whether a query runs; elsewhere there is none. The sign decides
# nothing about state, which epochs protect: it only keeps a command from stopping a query by taking
# its checkpoint over. Its age is measured by the store's own clock.


SIGN, NOW = "statemigrate/held", "statemigrate/now"
EVERY = 30.0
"""Seconds from one sign to the next."""
GONE = 120.0
"""Seconds without a sign after which a query is not there any more."""
_log = logging.getLogger("statemigrate.embedded")


class WriterHeartbeat:
    """The sign of the writer of an epoch, given until it is released."""

    def __init__(self, epoch: Epoch) -> None:
        self._files = epoch.files
        self._sign = f"epoch {epoch.number}, process {os.getpid()} on {socket.gethostname()}"
        self._ended = threading.Event()
        self._give()
        threading.Thread(target=self._go_on, daemon=True).start()

    def release(self) -> None:
        """Take the sign away, unless it is another's by now."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._take_away()

    def _take_away(self) -> None:
        try:
            if self._files.get(SIGN) == self._sign.encode():
                self._files.delete([SIGN])
        except FileNotFoundError:
            return
        except Exception:
            # With the session that ended the query its way to the files may have ended too.
            _log.warning("the sign of a query that has ended is left; it counts for two minutes")

    def _go_on(self) -> None:
        while not self._ended.wait(EVERY):
            self._give()

    def _give(self) -> None:
        try:
            self._files.replace(SIGN, self._sign.encode())
            if self._ended.is_set():
                # Meanwhile: it may have come after the other was taken away.
                self._take_away()
        except Exception:
            # What fails a heartbeat fails the next commit too, and that raises.
            where = without_credentials(self._files.location)
            _log.warning("no sign of life in %s", where, exc_info=True)


def require_stopped(layout: Layout) -> None:
    """Raise `CheckpointInUseError` where a query has given a sign within the last two minutes."""
    if layout.remote is None:
        return
    sign = layout.files.find(SIGN)
    if sign is None:
        return
    layout.files.replace(NOW, b"")
    now = layout.files.find(NOW)
    age = now.modified - sign.modified if now is not None else 0.0
    if age >= GONE:
        return
    raise CheckpointInUseError(
        "SM-EMBEDDED-019",
        f"the checkpoint {layout.files.location} is in use",
        expected="no running query",
        found=f"a sign of life from {age:.0f} seconds ago: {_holder(layout)}",
        next_action="stop that query first; where it was killed, wait for two minutes",
        path=layout.files.location,
    )


def _holder(layout: Layout) -> str:
    try:
        return layout.files.get(SIGN, most=1_000).decode(errors="replace")
    except FileNotFoundError:
        return "it has just ended"
