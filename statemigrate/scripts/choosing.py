"""Which script a name means: of stores in order by their lineage, of others as far as they go."""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.errors import LineageError, did_you_mean
from statemigrate.migration import BASE, Lineage
from statemigrate.migration.lineage import RELATIVE
from statemigrate.scripts.listing import Entry, entries
from statemigrate.scripts.survey import Survey
from statemigrate.shell import argument


def chosen(found: Survey, target: str) -> Entry:
    """Return the script that ``target`` means; see `ScriptFolder.show`. Raises LineageError."""
    store, separator, rest = target.partition("@")
    if separator or target in found.stores:
        return _of_store(found, store, rest or "head")
    everywhere = [entry for each in (*found.stores, None) for entry in entries(found, each)]
    if len({entry.store for entry in everywhere}) == 1 and found.stores:
        return _of_the_one(found, target)
    relative = RELATIVE.fullmatch(target)
    if target in ("head", BASE) or (relative and relative["start"] in ("", "head", BASE)):
        raise _of_several_stores(found, target)
    matching = [entry for entry in everywhere if (entry.revision or "").startswith(target)]
    stores = list(dict.fromkeys(entry.store for entry in matching))
    if len(stores) == 1 and stores[0] is not None:
        return _of_store(found, stores[0], target)
    if len(matching) == 1:
        return matching[0]
    known = [*found.stores, *(entry.revision for entry in everywhere if entry.revision)]
    raise LineageError(
        "SM-LINEAGE-023",
        f"{target!r} means scripts of {len(stores)} stores."
        if matching
        else f"No script has the revision {target!r}.",
        expected="a revision, the beginning of one, STORE or STORE@REVISION",
        found=", ".join(str(each) for each in stores) or repr(target),
        next_action="`statemigrate history` lists all revisions"
        f"{'' if matching else did_you_mean(target, known)}",
        revision=target,
    )


def _of_the_one(found: Survey, target: str) -> Entry:
    (store,) = found.stores
    try:
        return _of_store(found, store, target)
    except LineageError as error:
        close = did_you_mean(target, [store])
        if not close:
            raise
        raise error.but(next_action=f"{error.next_action}{close}") from error


def _of_several_stores(found: Survey, target: str) -> LineageError:
    named = [f"{store}@{target}" for store in found.stores]
    return LineageError(
        "SM-LINEAGE-024",
        f"Each store has its own {target!r}, and there are {len(named)} stores.",
        expected=f"one of {', '.join(named)}" if named else "a store with scripts",
        found=repr(target),
        next_action="name the store too" if named else "`statemigrate new STORE -m MESSAGE`",
        revision=target,
    )


def _of_store(found: Survey, store: str, name: str) -> Entry:
    mine = entries(found, store)
    if not mine:
        raise found.unscripted(store)
    if store not in found.lineages:
        return _among(store, mine, name)
    lineage = found.lineages[store]
    revision = lineage.resolve(name)
    if revision == BASE:
        raise _before_the_first(lineage, f"{store}@{name}")
    return next(entry for entry in mine if entry.revision == revision)


def _among(store: str, mine: Sequence[Entry], name: str) -> Entry:
    """The one that is meant, where not every script can be used.

    Scripts that follow one another are in order also before they are finished. Where they do not,
    a head or a revision's beginning tells which it is.
    """
    chain = _follow(mine)
    if chain and (found := _counted(chain, name)):
        return found
    heads = [entry for entry in mine if entry.is_head]
    exact = [entry for entry in mine if entry.revision == name]
    beginning = [entry for entry in mine if (entry.revision or "").startswith(name)]
    matching = heads if name == "head" else exact or beginning
    if len(matching) == 1:
        return matching[0]
    revisions = [str(entry.revision) for entry in mine]
    raise LineageError(
        "SM-LINEAGE-025",
        f"Store '{store}' has no script {name!r}."
        if chain and not matching
        else f"{name!r} means {len(matching) or 'none'} of the scripts of store '{store}', which "
        f"{'have names alike' if chain else 'form no chain'}.",
        expected=f"one of {', '.join(revisions)}",
        found=", ".join(str(entry.revision) for entry in matching) or repr(name),
        next_action=f"`statemigrate history {argument(store)}` shows what is wrong with them"
        f"{'' if matching else did_you_mean(name, ('head', BASE, *revisions))}",
        store=store,
        revision=name,
    )


def _follow(mine: Sequence[Entry]) -> list[Entry]:
    """The scripts oldest first, each following the one before; nothing where they do not."""
    followed = {entry.down_revision: entry for entry in mine}
    chain: list[Entry] = []
    before: str | None = None
    while before in followed and len(chain) < len(mine):
        chain.append(followed[before])
        before = chain[-1].revision
    return chain if len(chain) == len(mine) else []


def _counted(chain: Sequence[Entry], name: str) -> Entry | None:
    """The script so far from either end of a chain; None for another kind of name."""
    found = RELATIVE.fullmatch(name)
    start = name if found is None else found["start"] or "head"
    distance = 0 if found is None else int(found["distance"])
    first = chain[0].migration
    # A baseline is the oldest revision itself; before any other script there is one.
    oldest = 0 if first is not None and first.is_baseline else -1
    places = {"head": len(chain) - 1, BASE: oldest}
    if start not in places or not 0 <= places[start] + distance < len(chain):
        return None
    return chain[places[start] + distance]


def _before_the_first(lineage: Lineage, target: str) -> LineageError:
    return LineageError(
        "SM-LINEAGE-026",
        f"No script made {target}: it is the state before the first one.",
        expected=f"one of {', '.join(m.revision for m in lineage.migrations)}",
        found=target,
        next_action=f"`statemigrate show {argument(lineage.store)}@base+1` shows the first script",
        store=lineage.store,
    )
