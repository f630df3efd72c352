"""Which script a name means: of stores in order by their lineage, of others as far as they go."""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.errors import LineageError
from statemigrate.migration import BASE, Lineage
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
        return _of_store(found, found.stores[0], target)
    matching = [entry for entry in everywhere if (entry.revision or "").startswith(target)]
    stores = list(dict.fromkeys(entry.store for entry in matching))
    if len(stores) == 1 and stores[0] is not None:
        return _of_store(found, stores[0], target)
    if len(matching) == 1:
        return matching[0]
    raise LineageError(
        f"{target!r} means scripts of {len(stores)} stores."
        if matching
        else f"No script has the revision {target!r}.",
        expected="a revision, the beginning of one, STORE or STORE@REVISION",
        found=", ".join(str(each) for each in stores) or repr(target),
        next_action="`statemigrate history` lists all revisions",
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
    """The one that is meant, of scripts that are no chain: a head, or a revision's beginning."""
    heads = [entry for entry in mine if entry.is_head]
    exact = [entry for entry in mine if entry.revision == name]
    beginning = [entry for entry in mine if (entry.revision or "").startswith(name)]
    matching = heads if name == "head" else exact or beginning
    if len(matching) == 1:
        return matching[0]
    raise LineageError(
        f"{name!r} means {len(matching) or 'none'} of the scripts of store '{store}', which form "
        "no chain.",
        expected=f"one of {', '.join(str(entry.revision) for entry in mine)}",
        found=", ".join(str(entry.revision) for entry in matching) or repr(name),
        next_action=f"`statemigrate history {argument(store)}` shows what is wrong with them",
        store=store,
        revision=name,
    )


def _before_the_first(lineage: Lineage, target: str) -> LineageError:
    return LineageError(
        f"No script made {target}: it is the state before the first one.",
        expected=f"one of {', '.join(m.revision for m in lineage.migrations)}",
        found=target,
        next_action=f"`statemigrate show {argument(lineage.store)}@base+1` shows the first script",
        store=lineage.store,
    )
