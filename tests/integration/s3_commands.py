"""Rewrites and forks in a bucket that fails, each ended by SIGKILL, an error or its own end.

Whatever has ended a command, the same one is run again. What is in the new place in between is a
checkpoint that is whole or one that no query takes for one, and the command's answer says which.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import unescape

from s3_lives import S3Lives
from tally import AMOUNTS, CENTS, FAMILIES

from statemigrate.checkpoint.directory import UNFINISHED

VERBS = ("fork", "rewrite")
_OWN = "statemigrate/"
# Whose it is does not matter to the server, but that it is somebody's.
_SIGNED = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, "
    "Signature=0"
)


@dataclass
class S3Command(S3Lives):
    """The command ``verb``, from the query's checkpoint to ``target``.

    ``partitions`` and ``with_scripts`` are what a rewrite changes. The query ``is_migrated`` once
    it runs the new code.
    """

    verb: str = "rewrite"
    target: str = ""
    partitions: int = 3
    with_scripts: bool = False
    is_migrated: bool = False

    def told(self, revision: str) -> dict[str, Any]:
        """See `S3Lives.told`."""
        command = {"target": self.target, "partitions": self.partitions}
        return {**super().told(revision), **command, "with_scripts": self.with_scripts}

    def killed_command(self) -> None:
        """A command that is ended by SIGKILL at some request, unless it ends before."""
        self._answering(lambda: self.killed(self.verb))

    def expired_command(self) -> None:
        """A command whose credentials expire meanwhile."""
        self._answering(lambda: self.expired(self.verb))

    def command_to_the_end(self) -> None:
        """The command again and again, until there is a checkpoint, and its state is read."""
        for _ in range(10):
            if self._answering(lambda: self.came_to_its_end(self.verb)) in ("made", "checkpoint"):
                return
        raise AssertionError(f"no command came to its end:\n{self.figures.said[-10:]}")

    def refused(self) -> None:
        """No query starts in the new place, where something unfinished is, or changes it."""
        if self.found() != "unfinished":
            return
        before, old = self.files(self.target), self.checkpoint
        self.checkpoint = self.target
        assert not self.came_to_its_end(CENTS), "a query started in an unfinished checkpoint"
        self.checkpoint = old
        assert self.files(self.target) == before

    def found(self) -> str:
        """What is in the new place: ``nothing``, something ``unfinished``, or a ``checkpoint``."""
        names = self.files(self.target)
        if "metadata" not in names:
            others = [name for name in names if not name.startswith(_OWN)]
            assert others == [], "Spark would take these for a checkpoint"
            return "nothing"
        metadata = self._get(f"{self.target}/metadata")
        if metadata.startswith(UNFINISHED):
            return "unfinished"
        assert isinstance(json.loads(metadata)["id"], str)
        return "checkpoint"

    def files(self, place: str) -> dict[str, str]:
        """The tags of the files below a URI by name, as the server behind the proxy has them."""
        parts, found, after = urlsplit(place), {}, ""
        prefix = f"{parts.path.strip('/')}/"
        while True:
            query = f"list-type=2&prefix={quote(prefix)}&start-after={quote(after)}"
            listed = _read(f"{self.proxy.upstream}/{parts.netloc}?{query}").decode()
            pairs = re.findall(r"<Key>(.*?)</Key>.*?<ETag>(.*?)</ETag>", listed, re.DOTALL)
            found |= {unescape(key).removeprefix(prefix): tag for key, tag in pairs}
            if "<IsTruncated>true" not in listed:
                return found
            after = unescape(pairs[-1][0])

    def _answering(self, live: Any) -> str | None:
        """What a command that came to its end has answered; it is what was there."""
        answer, before, old = self.folder / "answer.json", self.found(), self.files(self.checkpoint)
        answer.unlink(missing_ok=True)
        live()
        after = self.found()
        assert self.files(self.checkpoint) == old, "the old checkpoint has changed"
        if before == "checkpoint":
            assert after == "checkpoint"
        if not answer.exists():
            return None
        said = json.loads(answer.read_text(encoding="utf-8"))
        resumed = "unfinished" if self.verb == "fork" else "made"
        assert (
            said == {"nothing": "made", "unfinished": resumed, "checkpoint": "checkpoint"}[before]
        )
        assert after == ("unfinished" if said == "unfinished" else "checkpoint")
        if said == "unfinished":
            # As the answer says.
            self._remove(self.target)
        return str(said)

    def _remove(self, place: str) -> None:
        for name in self.files(place):
            _read(self._url(f"{place}/{name}"), "DELETE")

    def _get(self, uri: str) -> bytes:
        return _read(self._url(uri))

    def _url(self, uri: str) -> str:
        parts = urlsplit(uri)
        return f"{self.proxy.upstream}/{parts.netloc}{quote(parts.path)}"


def _read(url: str, method: str = "GET") -> bytes:
    signed = {"Authorization": _SIGNED}
    request = urllib.request.Request(url, method=method, headers=signed)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - this machine's own
        return bytes(answer.read())


def command_history(lives: S3Command, kills: int = 2, verbs: Sequence[str] = VERBS) -> None:
    """A query that goes on from what one command after the other makes, each of them killed."""
    lives.feed(1)
    lives.to_the_end(CENTS)
    for verb in verbs:
        lives.verb, lives.target = verb, f"{lives.checkpoint}-{verb}"
        _made(lives, kills)
        if _runs_scripts(lives):
            # With a backfill source no code goes on from values that a rewrite has migrated.
            break
        lives.checkpoint = lives.target
        lives.feed(1)
        lives.to_the_end(_next_revision(lives))
        lives.compare()
    lives.compare_output()


def _made(lives: S3Command, kills: int) -> None:
    chance = lives.chance
    for _ in range(kills):
        lives.killed_command()
        if chance.random() < 0.2:
            lives.expired_command()
        if chance.random() < 0.2:
            lives.refused()
        if chance.random() < 0.2:
            # Another plan begins anew.
            lives.partitions = chance.randrange(1, 4)
    lives.command_to_the_end()
    if _runs_scripts(lives):
        # A rewrite leaves one family, under the name of the first.
        lives.revisions = {FAMILIES[CENTS]: AMOUNTS}
    lives.compare()


def _runs_scripts(lives: S3Command) -> bool:
    """Whether the command has changed values."""
    return lives.verb == "rewrite" and lives.with_scripts


def _next_revision(lives: S3Command) -> str:
    """What the query goes on with: as before, or with new code."""
    if not lives.is_migrated:
        lives.is_migrated = lives.chance.random() < 0.4
    # Values of two revisions are rewritten as they are.
    lives.with_scripts = lives.with_scripts and not lives.is_migrated
    return AMOUNTS if lives.is_migrated else CENTS
