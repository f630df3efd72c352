"""Histories of queries through a bucket that fails, killed at any request."""

from __future__ import annotations

import random
import shutil
import traceback
from pathlib import Path

from support.sessions import use_folders

from soak.runner import Outcome


class S3Soak:
    """Histories below a folder, of one engine after the other, each with a checkpoint of its own.

    ``make systems`` has fetched the server.
    """

    def __init__(self, folder: Path) -> None:
        use_folders("integration", "native", "spark")
        from systems.s3_proxy import FaultyS3

        self._folder = folder
        self._system = FaultyS3(folder)

    def history(self, seed: int) -> Outcome:
        """See `soak.runner.Engine`."""
        from s3_lives import ENGINES, S3Lives, history

        chance, system = random.Random(seed), self._system
        kind = ENGINES[seed % len(ENGINES)]
        lives = S3Lives(
            kind,
            self._folder / "lives",
            system.proxy,
            f"{system.uri}/{seed}",
            system.jars,
            system.conf,
            chance,
        )
        failure = None
        try:
            history(lives, chance.randrange(2, 6))
        except Exception:
            failure = f"{kind}: {traceback.format_exc()}"
        shutil.rmtree(self._folder / "lives", ignore_errors=True)
        found = lives.figures
        return Outcome(found.lives, found.kills + found.errors, found.values, failure)

    def close(self) -> None:
        """See `soak.runner.Engine`."""
        print("faults:", dict(self._system.proxy.injected), flush=True)  # noqa: T201
        self._system.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def engine(folder: Path) -> S3Soak:
    """See `soak.runner`."""
    return S3Soak(folder)
