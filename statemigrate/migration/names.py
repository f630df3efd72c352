"""What a store and a revision may be called: both become parts of file and column family names.

The state of one of Spark's own operators is a store too, called by its kind and number.
"""

from __future__ import annotations

import re

from statemigrate.errors import LineageError

_STORE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
OPERATOR_WORDS = (
    "aggregation",
    "deduplicate",
    "deduplicate-within-watermark",
    "session-window",
    "join",
    "groups",
    "limit",
)
"""The kinds of Spark's own operators, as their stores are called."""
_OPERATOR = re.compile(rf"(?:{'|'.join(OPERATOR_WORDS)})-\d+|join-\d+\.(?:left|right)")
_REVISION = re.compile(r"[A-Za-z0-9_]+")
_RESERVED = frozenset({"base", "bases", "head", "heads", "current", "default"})


def check_store_name(store: object) -> str:
    """Return ``store`` if it can name a store, else raise LineageError.

    Reserved are the words alembic reads as revisions, and Spark's default column family. A leading
    underscore is refused because Spark keeps such state variable names for itself. The state of an
    operator is called as in ``aggregation-0`` and ``join-1.left``.
    """
    if is_operator_store(store):
        return str(store)
    if isinstance(store, str) and _STORE.fullmatch(store) and store.lower() not in _RESERVED:
        return store
    raise LineageError(
        "SM-LINEAGE-021",
        f"{store!r} cannot be the name of a store.",
        expected=f"letters, digits and underscores, a letter first; not {_reserved()}; or the "
        "state of an operator, as in aggregation-0 or join-1.left",
        found=repr(store),
        next_action="choose another name, such as 'auctions'",
        store=store,
    )


def is_operator_store(store: object) -> bool:
    """Whether a name is that of the state of one of Spark's own operators."""
    return isinstance(store, str) and _OPERATOR.fullmatch(store) is not None


def check_revision(revision: object, where: str) -> str:
    """Return ``revision`` if it can be one, else raise LineageError naming the script."""
    if isinstance(revision, str) and _is_revision(revision):
        return revision
    raise LineageError(
        "SM-LINEAGE-022",
        f"{revision!r} in {where} cannot be a revision.",
        expected=f"letters, digits and underscores; not {_reserved()}",
        found=repr(revision),
        next_action="`statemigrate new` chooses a fresh revision for a script",
        revision=revision,
    )


def _is_revision(revision: str) -> bool:
    return bool(_REVISION.fullmatch(revision)) and revision.lower() not in _RESERVED


def _reserved() -> str:
    return ", ".join(sorted(_RESERVED))
