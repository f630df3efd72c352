"""Histories of queries, rewrites and forks through a bucket that fails, killed at any request."""

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
        from s3_commands import S3Command, command_history
        from s3_lives import ENGINES, S3Lives, history

        chance, system = random.Random(seed), self._system
        # Every other history is one of commands.
        kind = ENGINES[seed // 2 % len(ENGINES)] if seed % 2 else "commands"
        lives = (S3Lives if seed % 2 else S3Command)(
            kind if seed % 2 else "native",
            self._folder / "lives",
            system.proxy,
            f"{system.uri}/{seed}",
            system.jars,
            system.conf,
            chance,
        )
        failure = None
        try:
            if isinstance(lives, S3Command):
                lives.partitions = chance.randrange(1, 4)
                lives.with_scripts = chance.random() < 0.6
                command_history(lives, chance.randrange(1, 4))
            else:
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
