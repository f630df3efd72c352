"""`heads.txt`: the newest script of each store, one line a store.

Two branches that both add a script to a store change the same line. So a merge in version control
conflicts, where two new files alone would not. The idea is that of django-linear-migrations, whose
``max_migration.txt`` has the newest migration of an application.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from statemigrate.errors import LineageError
from statemigrate.files import replacing
from statemigrate.quoting import argument
from statemigrate.scripts.survey import StoreAndRevision, Survey

FILE = "heads.txt"
_TITLE = (
    "# The newest script of each store, and a hash of the revisions up to it. "
    "`statemigrate new` writes it: commit it."
)
_DIGITS = 16

Heads = Mapping[str, str]
"""By the name of a store its newest revision and the hash, with a space between them."""


def heads_of(
    places: Mapping[str, StoreAndRevision], follows: Mapping[str, str | None]
) -> dict[str, str]:
    """The heads of the stores whose scripts form one chain.

    ``places`` has store and revision of each script by its path, ``follows`` the revision before.
    """
    stores: dict[str, dict[str, str | None]] = {}
    for path, (store, revision) in places.items():
        if store is not None and revision is not None and store.isprintable():
            stores.setdefault(store, {})[revision] = follows[path]
    chains = {store: _chain(each) for store, each in sorted(stores.items())}
    return {store: _head(chain) for store, chain in chains.items() if chain}


def _chain(follows: Mapping[str, str | None]) -> Sequence[str]:
    """The revisions, oldest first; none where they form no chain."""
    after = {before: revision for revision, before in follows.items()}
    first = [each for each, before in follows.items() if before not in follows]
    chain = first[:1]
    while chain and chain[-1] in after:
        chain.append(after[chain[-1]])
    return chain if len(chain) == len(follows) else []


def _head(chain: Sequence[str]) -> str:
    text = "\n".join(chain).encode("utf-8", "surrogatepass")
    return f"{chain[-1]} {hashlib.sha256(text).hexdigest()[:_DIGITS]}"


def read_heads(directory: Path) -> Heads | None:
    """What the file in a folder of scripts says; None where there is no such file.

    Raises `LineageError` for a file with other lines, such as those of a conflict.
    """
    path = directory / FILE
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("# "):
            continue
        parts = line.rsplit(" ", 2)
        if len(parts) != 3 or parts[0] in found or len(parts[2]) != _DIGITS:
            raise LineageError(
                "SM-LINEAGE-029",
                f"{path} is not as `statemigrate new` wrote it.",
                expected="STORE REVISION HASH on each line, each store once",
                found=f"{line[:80]!r} in line {number}",
                next_action=f"`{_command(directory)} check --write-heads`; then, for a store with "
                f"two heads, `{_command(directory)} new STORE --rebase --apply`",
                path=str(path),
                line=number,
            )
        found[parts[0]] = f"{parts[1]} {parts[2]}"
    return found


def differing_heads(directory: Path, scripts: Survey) -> Iterator[LineageError]:
    """An error for each store whose scripts are not those that the file has.

    A store without a line is not compared, nor one whose scripts form no chain.
    """
    try:
        recorded = read_heads(directory)
    except LineageError as error:
        yield error
        return
    there = heads_of(scripts.places, scripts.follows)
    for store, head in (recorded or {}).items():
        found = there.get(store)
        if found == head or (found is None and store in scripts.stores):
            continue
        revision = head.partition(" ")[0]
        at = "no script" if found is None else f"the head {found.partition(' ')[0]}"
        same = found is not None and found.partition(" ")[0] == revision
        yield LineageError(
            "SM-LINEAGE-030",
            f"The scripts of store '{store}' are not those that {FILE} has.",
            expected=f"the head {revision}, on the scripts that it was written on",
            found=f"{at}, on other scripts" if same else at,
            next_action="compare the folder with version control: a script was lost, or came "
            "without its line; where the scripts are right, "
            f"`{_command(directory)} check --write-heads`",
            store=store,
            path=str(directory / FILE),
        )


def write_heads(directory: Path, scripts: Survey) -> Path:
    """Write the file for all ``scripts``, whatever it has."""
    return _write(directory, heads_of(scripts.places, scripts.follows))


def write_head(directory: Path, store: str, scripts: Survey) -> None:
    """Write the line of one store, if the folder has the file.

    Raises `LineageError` for a file with other lines.
    """
    recorded = read_heads(directory)
    if recorded is None:
        return
    found = heads_of(scripts.places, scripts.follows)
    others = {name: head for name, head in recorded.items() if name != store}
    _write(directory, others | ({store: found[store]} if store in found else {}))


def _write(directory: Path, heads: Heads) -> Path:
    lines = [_TITLE, *(f"{name} {head}" for name, head in sorted(heads.items()))]
    with replacing(directory / FILE) as stream:
        stream.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    return directory / FILE


def _command(directory: Path) -> str:
    return f"statemigrate --migrations {argument(str(directory))}"
