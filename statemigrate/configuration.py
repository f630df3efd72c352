"""What a project says of itself once: ``[tool.statemigrate]`` in its pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from statemigrate.errors import StatemigrateError

TABLE = "[tool.statemigrate]"


class ConfigurationError(StatemigrateError):
    """A pyproject.toml that cannot be read, or says what nobody understands. Data: ``path``."""


@dataclass(frozen=True)
class NamedCheckpoint:
    """A query's checkpoint that the project has a name for.

    ``code`` names its processors and functions, ``MODULE:OBJECT``; ``targets`` are revisions by
    store, and ``operator`` is Spark's number of the stateful operator that is meant.
    """

    name: str
    path: str
    code: tuple[str, ...] = ()
    targets: Mapping[str, str] = field(default_factory=dict)
    operator: int | None = None

    def targets_over(self, others: Mapping[str, str] | None) -> dict[str, str]:
        """Its targets, and of stores that it has none for those of ``others``."""
        return {**(others or {}), **self.targets}


@dataclass(frozen=True)
class Configuration:
    """The settings of ``[tool.statemigrate]``; None or nothing where it does not say.

    The folder of ``migrations``, the ``checkpoint`` that commands are about, the ``checkpoints``
    that have a name, by store the ``targets``, the ``stores`` that have a name of the project's own
    for an operator's state, as in ``orders = "aggregation-0"``, and whether ``values`` of state are
    shown. The others are alembic's own, under its own names, and hold for scripts that are written.
    """

    migrations: str | None = None
    checkpoint: str | None = None
    checkpoints: Mapping[str, NamedCheckpoint] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    values: bool | None = None
    file_template: str | None = None
    truncate_slug_length: int | None = None
    timezone: str | None = None
    post_write_hooks: tuple[Mapping[str, str], ...] = ()

    def of_alembic(self) -> dict[str, Any]:
        """What alembic is told, by its own names."""
        found = {
            "file_template": self.file_template,
            "truncate_slug_length": self.truncate_slug_length,
            "timezone": self.timezone,
            "post_write_hooks": [dict(each) for each in self.post_write_hooks] or None,
        }
        return {name: value for name, value in found.items() if value is not None}


def configured(directory: Path | None = None) -> Configuration:
    """The configuration of a project, by default the one of the working directory.

    Paths in it are relative to that directory. Raises `ConfigurationError`.
    """
    path = (directory or Path()) / "pyproject.toml"
    if not path.is_file():
        return Configuration()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        said = table.get("statemigrate", {})
        given = dict(said)
    except (ValueError, TypeError, AttributeError) as error:
        raise _wrong(path, f"pyproject.toml cannot be read: {error}") from error
    given["checkpoints"] = _checkpoints(path, given.pop("checkpoints", {}))
    for name, value in given.items():
        _check(path, name, value)
    if "post_write_hooks" in given:
        given["post_write_hooks"] = tuple(given["post_write_hooks"])
    return Configuration(**given)


_CHECKPOINTS = "a table of checkpoints by name: each a path, or a table with its path"
_KINDS: Mapping[str, tuple[type, str]] = {
    "migrations": (str, "the path of a folder"),
    "checkpoint": (str, "the path of a checkpoint"),
    "checkpoints": (dict, _CHECKPOINTS),
    "targets": (dict, "a table of revisions by store"),
    "stores": (dict, "a table of operators' stores, such as aggregation-0, by the names they get"),
    "values": (bool, "true or false"),
    "file_template": (str, "a text"),
    "truncate_slug_length": (int, "a number"),
    "timezone": (str, "the name of a time zone"),
    "post_write_hooks": (list, "a list of tables, each with a name and a type"),
}


_PARTS: Mapping[str, tuple[type, str]] = {
    "path": (str, "the path of a checkpoint"),
    "code": (list, "a list of MODULE:OBJECT"),
    "targets": (dict, "a table of revisions by store"),
    "operator": (int, "the number of a stateful operator"),
}


def _checkpoints(path: Path, said: Any) -> dict[str, NamedCheckpoint]:
    if not isinstance(said, dict):
        raise _wrong(path, f"checkpoints of {TABLE} in pyproject.toml is {_CHECKPOINTS}.")
    found = {name: _checkpoint(path, name, value) for name, value in said.items()}
    names: dict[str, str] = {}
    for name, each in found.items():
        if names.setdefault(each.path, name) != name:
            both = f"{names[each.path]} and {name}"
            raise _wrong(path, f"checkpoints.{both} of {TABLE} in pyproject.toml are one path.")
    return found


def _checkpoint(path: Path, name: str, said: Any) -> NamedCheckpoint:
    place = f"checkpoints.{name} of {TABLE} in pyproject.toml"
    parts = {"path": said} if isinstance(said, str) else said
    if not isinstance(parts, dict) or "path" not in parts:
        raise _wrong(path, f"{place} is a path, or a table with one.")
    for part, value in parts.items():
        if part not in _PARTS:
            known = ", ".join(_PARTS)
            raise _wrong(
                path,
                f"checkpoints.{name} of {TABLE} in pyproject.toml has no {part}: it has {known}.",
            )
        kind, words = _PARTS[part]
        within = [*value.values()] if isinstance(value, dict) else value if kind is list else []
        if type(value) is not kind or not all(isinstance(each, str) for each in within):
            raise _wrong(
                path, f"checkpoints.{name}.{part} of {TABLE} in pyproject.toml is {words}."
            )
    return NamedCheckpoint(name, **{**parts, "code": tuple(parts.get("code", ()))})


def _check(path: Path, name: str, value: Any) -> None:
    if name not in _KINDS:
        known = ", ".join(each.name for each in fields(Configuration))
        raise _wrong(path, f"{TABLE} in pyproject.toml has no setting {name}: it has {known}.")
    kind, words = _KINDS[name]
    is_table = isinstance(value, dict) and name != "checkpoints"
    parts: list[Any] = list(value.values()) if is_table else []
    hooks = value if isinstance(value, list) else ()
    if (
        not isinstance(value, kind)
        or (kind is int and isinstance(value, bool))
        or not all(isinstance(each, str) for each in parts)
        or not all(isinstance(each, dict) and {"name", "type"} <= each.keys() for each in hooks)
    ):
        raise _wrong(path, f"{name} of {TABLE} in pyproject.toml is {words}.")
    if name == "stores" and len(set(parts)) < len(parts):
        raise _wrong(path, f"stores of {TABLE} in pyproject.toml has two names for one operator.")


def _wrong(path: Path, summary: str) -> ConfigurationError:
    return ConfigurationError(summary, path=str(path))
