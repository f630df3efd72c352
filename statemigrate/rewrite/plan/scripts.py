"""What the scripts of a store say of a rewrite: the way from the state's revision to the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint.operators.labels import labelled
from statemigrate.checkpoint.operators.shapes import FamilyShape, StructJson
from statemigrate.errors import RewriteError
from statemigrate.formats import Format, compare
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration.path import Path
from statemigrate.rewrite.plan.types import is_same


@dataclass(frozen=True)
class Scripted:
    """The scripts of ``store`` that are still to run, from the formats of the state to new ones.

    ``applied`` has every script that is then applied: revision and checksum; ``family`` is how the
    store's family of the last revision is called.
    """

    store: str
    path: Path
    key: Format
    value: Format
    new_key: Format
    new_value: Format
    applied: tuple[tuple[str, str], ...] = ()
    family: str = ""

    def check(self, family: FamilyShape) -> None:
        """Raise `RewriteError` unless the new code keeps what the scripts lead to."""
        self._check("value", self.new_value, family.value)
        self._check("key", self.new_key, family.key)

    def _check(self, part: str, said: Format, kept: StructJson) -> None:
        if not is_same(_json(said), labelled(kept)):
            raise RewriteError(
                f"{self.store}: the new code keeps another {part} than its scripts lead to",
                expected=f"{said!r}, as at revision {self.path.target}",
                found=f"{struct_from_json(labelled(kept))!r}\n"
                f"{compare(said, struct_from_json(labelled(kept)))}",
                next_action=f"correct the script of revision {self.path.target}, write a further "
                f"one with `statemigrate new {self.store}`, or correct the code",
                store=self.store,
            )


def as_scripted(family: FamilyShape, scripted: Scripted) -> FamilyShape:
    """The family as the scripts leave it, where there is no new code to ask."""
    key, value = _json(scripted.new_key), _json(scripted.new_value)
    return FamilyShape(
        family.name,
        family.key if is_same(key, labelled(family.key)) else key,
        family.value if is_same(value, labelled(family.value)) else value,
        family.encoder,
        family.is_list,
        family.user_key,
    )


def _json(fmt: Format) -> Any:
    return fmt.struct_type().jsonValue()
