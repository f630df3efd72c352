"""Which of several old states each field of the one that they become is taken from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from statemigrate.errors import RewriteError
from statemigrate.rewrite.plan.pairing.fields import StructChange, Take
from statemigrate.shell import argument


def takes_of_parts(names: Sequence[str], take: Take) -> list[Take]:
    """What the author says of fields, for each of the old states of these names.

    A field that is said is taken from ``STATE.FIELD``, and of no other state.
    """
    return [dict(_of_part(name, take)) for name in names]


def check_owners(store: str, parts: Mapping[str, StructChange | None]) -> None:
    """Raise `RewriteError` where several old states, by their names, have a field of the new one.

    A script has all fields, and nothing to match.
    """
    for label in dict.fromkeys(label for change in parts.values() for label in _owned(change)):
        owners = [
            name for name, change in parts.items() if change is None or label in _owned(change)
        ]
        if len(owners) > 1:
            raise RewriteError(
                "SM-REWRITE-022",
                f"{' and '.join(owners)} become {store}, and which of them has {store}.{label} is "
                "not known",
                expected="each field in one of them only, or a rule for keys that are in several",
                found=f"{label} in each",
                next_action=f"write a script for {store} with merge(first, second); or take the "
                f"field from one, as in --take {store}.{label}={owners[0]}.{label}",
                store=store,
            )
    if all(change is None for change in parts.values()):
        raise RewriteError(
            "SM-REWRITE-023",
            f"{' and '.join(parts)} become {store}, and no script says what "
            "two values make of which each is whole",
            expected=f"a script for {store} with merge(first, second)",
            found="scripts of each of them alone",
            next_action=f"write one: `statemigrate new {argument(store)}`",
            store=store,
        )


def owned_fields(change: StructChange) -> list[str]:
    """The labels of the new struct's own fields that old rows have."""
    return [each.label for each in change.fields if each.change != "new"]


def _owned(change: StructChange | None) -> list[str]:
    return [] if change is None else owned_fields(change)


def _of_part(name: str, take: Take) -> Iterator[tuple[str, str | None]]:
    for label, said in take.items():
        # None is said by --start, which is of states that lack the field.
        if said is not None:
            own = said.startswith(f"{name}.")
            yield label, said.removeprefix(f"{name}.") if own else None
