"""The logical state of a checkpoint as text, by store and key, to compare with the model's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corners import KEYS, shown
from formats import LAST, STORES
from history import History
from model import Model, View, is_held

from statemigrate import StateTable, open_state

Shown = dict[str, dict[str, str]]


def stored(history: History, checkpoint: Path, migrations: Path, head: int, spark: Any) -> Shown:
    """What `open_state` finds, in whatever format: the head's unless there are no scripts."""
    with open_state(checkpoint, migrations=migrations, spark=spark) as state:
        return {
            store: _Store(store, data_type, head).shown(state[store])
            for store, data_type in history.types.items()
            if store in state.stores
        }


def wanted(history: History, model: Model, view: View) -> Shown:
    """The same of the model; a store nobody wrote to is left out where it is empty."""
    keys = [shown(each) for each in KEYS[history.key][1]]
    return {
        store: {
            keys[number]: model.shown_store(store, held)
            for number, held in view.items()
            if is_held(store, held)
        }
        for store in history.types
    }


def count(view: Shown) -> int:
    """How many values there are."""
    return sum(len(each) for each in view.values())


@dataclass(frozen=True)
class _Store:
    name: str
    data_type: str
    head: int

    def shown(self, table: StateTable) -> dict[str, str]:
        width = len((table.layout.user_key or {}).get("fields", ()))
        found: dict[str, Any] = {}
        for key, value in table.entries():
            own = key[len(key) - width :]
            grouping = shown(tuple(key[: len(key) - width]))
            if STORES[self.name] == "map":
                found.setdefault(grouping, []).append(f"{shown(tuple(own))}: {self.field(value)}")
                continue
            assert grouping not in found, f"{grouping} twice in {self.name}"
            is_list = STORES[self.name] == "list"
            found[grouping] = (
                f"[{', '.join(map(self.field, value))}]" if is_list else self.field(value)
            )
        if STORES[self.name] == "map":
            return {key: str(sorted(entries)) for key, entries in found.items()}
        return found

    def field(self, value: dict[str, Any]) -> str:
        assert value["stamp"] == self.head, f"{value!r} is not of revision {self.head}"
        assert self.head == LAST, "the reader's format"
        return shown(_rows(value["v"]) if "STRUCT<" in self.data_type else value["v"])


def _rows(value: Any) -> Any:
    """Structs as tuples; what has structs in it has no maps."""
    if isinstance(value, dict):
        return tuple(map(_rows, value.values()))
    return [_rows(each) for each in value] if isinstance(value, list) else value
