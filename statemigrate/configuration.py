"""What a project says of itself once: ``[tool.statemigrate]`` in its pyproject.toml.

Or the same without that header in a statemigrate.toml beside it, for a project without the other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from statemigrate.errors import StatemigrateError

TABLE = "[tool.statemigrate]"
OWN_FILE = "statemigrate.toml"


class ConfigurationError(StatemigrateError):
    """A configuration that cannot be read, or says what nobody understands. Data: ``path``."""


@dataclass(frozen=True)
class _Source:
    """The file that says it, and how that is called."""

    path: Path
    place: str


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
    found = _said(directory or Path())
    if found is None:
        return Configuration()
    source, given = found
    given["checkpoints"] = _checkpoints(source, given.pop("checkpoints", {}))
    for name, value in given.items():
        _check(source, name, value)
    if "post_write_hooks" in given:
        given["post_write_hooks"] = tuple(given["post_write_hooks"])
    return Configuration(**given)


def _said(directory: Path) -> tuple[_Source, dict[str, Any]] | None:
    """What one of the two files says; None where neither says anything."""
    project = _Source(directory / "pyproject.toml", f"{TABLE} in pyproject.toml")
    own = _Source(directory / OWN_FILE, OWN_FILE)
    table = _table(project)
    if not own.path.is_file():
        return None if table is None else (project, table)
    if table is not None:
        raise _wrong(
            own, f"{OWN_FILE} and {TABLE} in pyproject.toml both configure this project: keep one."
        )
    return own, _read(own)


def _table(project: _Source) -> dict[str, Any] | None:
    if not project.path.is_file():
        return None
    try:
        said = _read(project).get("tool", {}).get("statemigrate")
        return None if said is None else dict(said)
    except (ValueError, TypeError, AttributeError) as error:
        raise _wrong(project, f"pyproject.toml cannot be read: {error}") from error


def _read(source: _Source) -> dict[str, Any]:
    try:
        return tomllib.loads(source.path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _wrong(source, f"{source.path.name} cannot be read: {error}") from error


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


def _checkpoints(source: _Source, said: Any) -> dict[str, NamedCheckpoint]:
    if not isinstance(said, dict):
        raise _wrong(source, f"checkpoints of {source.place} is {_CHECKPOINTS}.")
    found = {name: _checkpoint(source, name, value) for name, value in said.items()}
    names: dict[str, str] = {}
    for name, each in found.items():
        if names.setdefault(each.path, name) != name:
            both = f"{names[each.path]} and {name}"
            raise _wrong(source, f"checkpoints.{both} of {source.place} are one path.")
    return found


def _checkpoint(source: _Source, name: str, said: Any) -> NamedCheckpoint:
    place = f"checkpoints.{name} of {source.place}"
    parts = {"path": said} if isinstance(said, str) else said
    if not isinstance(parts, dict) or "path" not in parts:
        raise _wrong(source, f"{place} is a path, or a table with one.")
    for part, value in parts.items():
        if part not in _PARTS:
            known = ", ".join(_PARTS)
            raise _wrong(
                source,
                f"checkpoints.{name} of {source.place} has no {part}: it has {known}.",
            )
        kind, words = _PARTS[part]
        within = [*value.values()] if isinstance(value, dict) else value if kind is list else []
        if type(value) is not kind or not all(isinstance(each, str) for each in within):
            raise _wrong(source, f"checkpoints.{name}.{part} of {source.place} is {words}.")
    return NamedCheckpoint(name, **{**parts, "code": tuple(parts.get("code", ()))})


def _check(source: _Source, name: str, value: Any) -> None:
    if name not in _KINDS:
        known = ", ".join(each.name for each in fields(Configuration))
        raise _wrong(source, f"{source.place} has no setting {name}: it has {known}.")
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
        raise _wrong(source, f"{name} of {source.place} is {words}.")
    if name == "stores" and len(set(parts)) < len(parts):
        raise _wrong(source, f"stores of {source.place} has two names for one operator.")


def _wrong(source: _Source, summary: str) -> ConfigurationError:
    return ConfigurationError(summary, path=str(source.path))
