"""What a project says of itself once: ``[tool.statemigrate]`` in its pyproject.toml.

Or the same without that header in a statemigrate.toml next to it, for a project without the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from statemigrate.errors import StatemigrateError

TABLE = "[tool.statemigrate]"
OWN_FILE = "statemigrate.toml"
DEFAULT = "migrations"
"""The folder of scripts where none is named."""


def names_scripts(migrations: str | Path | None) -> bool:
    """Whether there are scripts to read: not for None, nor for the default that is not there."""
    is_missing = str(migrations) == DEFAULT and not Path(DEFAULT).is_dir()
    return migrations is not None and not is_missing


class ConfigurationError(StatemigrateError):
    """A configuration that cannot be read, or says what nobody understands. Data: ``path``."""


@dataclass(frozen=True)
class _SettingLocation:
    """The file that says it, how that is called, and how the place in it is."""

    path: Path
    file: str
    place: str


@dataclass(frozen=True)
class NamedCheckpoint:
    """A query's checkpoint with a name in the project.

    ``code`` names its processors and functions, ``MODULE:OBJECT``; ``targets`` are revisions by
    store, and ``operator`` is Spark's number of the stateful operator, or its name. ``query`` is
    the function from streams to the result, ``MODULE:FUNCTION``, that `plan` looks at, and ``lock``
    the lock file of the code that is deployed.
    """

    name: str
    path: str
    code: tuple[str, ...] = ()
    targets: Mapping[str, str] = field(default_factory=dict)
    operator: int | str | None = None
    query: str | None = None
    lock: str | None = None

    def targets_over(self, others: Mapping[str, str] | None) -> dict[str, str]:
        """Its targets, and those of ``others`` for stores without one."""
        return {**(others or {}), **self.targets}


@dataclass(frozen=True)
class Configuration:
    """The settings of ``[tool.statemigrate]``; None or nothing where it does not say.

    The folder of ``migrations``, the ``checkpoint`` that commands are about, the ``checkpoints``
    that have a name, by store the ``targets``, the ``stores`` that have a name of the project's own
    for an operator's state, as in ``orders = "aggregation-0"``, by rule of `plan` the level in
    ``rules``, by store and field what may differ in a ``preview``, Spark's settings for sessions
    that commands start in ``spark``, whether ``values`` of state are shown, and in ``mask`` the
    columns that are shown as a hash. The others are alembic's own, under its own names, and hold
    for scripts that are written.
    """

    migrations: str | None = None
    checkpoint: str | None = None
    checkpoints: Mapping[str, NamedCheckpoint] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    preview: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    values: bool | None = None
    mask: tuple[str, ...] = ()
    file_template: str | None = None
    truncate_slug_length: int | None = None
    timezone: str | None = None
    post_write_hooks: tuple[Mapping[str, str], ...] = ()

    def of_alembic(self) -> dict[str, Any]:
        """The settings that alembic gets, by its own names."""
        found = {
            "file_template": self.file_template,
            "truncate_slug_length": self.truncate_slug_length,
            "timezone": self.timezone,
            "post_write_hooks": [dict(each) for each in self.post_write_hooks] or None,
        }
        return {name: value for name, value in found.items() if value is not None}


def configured(directory: Path | None = None) -> Configuration:
    """The configuration of a project: of the working directory, or of the nearest one above it.

    Relative paths in it are relative to its folder, also where that is above; there the scripts of
    the folder ``migrations`` next to it are meant where it names no other. Raises
    `ConfigurationError`.
    """
    start = directory or Path()
    found = _nearest(start)
    if found is None:
        return Configuration()
    source, given = found
    given["checkpoints"] = _checkpoints(source, given.pop("checkpoints", {}))
    if isinstance(spark := given.get("spark"), dict):
        given["spark"] = dict(_spark_settings(source, spark))
    for name, value in given.items():
        _check(source, name, value)
    for name in ("post_write_hooks", "mask"):
        if name in given:
            given[name] = tuple(given[name])
    configuration = Configuration(**given)
    folder = source.path.parent
    return configuration if folder == start else _from_above(configuration, folder)


def project_folder(directory: Path) -> Path | None:
    """The folder of the configuration that counts in a directory; None where there is none.

    Also of one that cannot be read; its reader raises the error.
    """
    try:
        found = _nearest(directory)
    except ConfigurationError as error:
        return Path(error.data["path"]).parent
    return None if found is None else found[0].path.parent


def _from_above(found: Configuration, folder: Path) -> Configuration:
    """The same with paths that hold in another working directory."""

    def placed(path: str) -> str:
        return path if _URI.match(path) else str(folder / path)

    migrations = found.migrations or ("migrations" if (folder / "migrations").is_dir() else None)
    return replace(
        found,
        migrations=None if migrations is None else placed(migrations),
        checkpoint=found.checkpoint
        if found.checkpoint is None or found.checkpoint in found.checkpoints
        else placed(found.checkpoint),
        checkpoints={
            name: replace(
                each,
                path=placed(each.path),
                lock=None if each.lock is None else placed(each.lock),
            )
            for name, each in found.checkpoints.items()
        },
    )


_URI = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")


def _nearest(start: Path) -> tuple[_SettingLocation, dict[str, Any]] | None:
    """The settings of a folder, or of the nearest one above it that has settings.

    Looked through are those up to the repository's, or to the user's own. What another user has put
    above a project counts for nothing, as a configuration names programs to run.
    """
    found = _read_settings(start)
    if found is not None:
        return found
    here = start.resolve()
    trusted = {0, os.geteuid(), here.stat().st_uid}
    for below, folder in pairwise((here, *here.parents)):
        if (below / ".git").exists() or below == Path.home():
            return None
        found = _read_settings(folder, trusted)
        if found is not None:
            return found
    return None


def _read_settings(
    directory: Path, trusted: Collection[int] | None = None
) -> tuple[_SettingLocation, dict[str, Any]] | None:
    """What one of the two files says; None where neither says anything.

    With ``trusted``, whose files count, the directory is one above the project, and is named.
    """
    is_above = trusted is not None

    def source(name: str, place: str) -> _SettingLocation | None:
        path = directory / name
        if not path.is_file() or (trusted is not None and path.stat().st_uid not in trusted):
            return None
        file = str(path) if is_above else name
        return _SettingLocation(path, file, place.format(file))

    project, own = source("pyproject.toml", f"{TABLE} in {{}}"), source(OWN_FILE, "{}")
    table = None if project is None else _table(project)
    if own is None:
        return None if table is None or project is None else (project, table)
    if table is not None:
        raise _wrong(
            "SM-CONFIG-002",
            own,
            f"{OWN_FILE} and {TABLE} in pyproject.toml both configure this project: keep one.",
        )
    return own, _read(own)


def _table(project: _SettingLocation) -> dict[str, Any] | None:
    try:
        table = _read(project).get("tool", {}).get("statemigrate")
        return None if table is None else dict(table)
    except (ValueError, TypeError, AttributeError) as error:
        raise _wrong("SM-CONFIG-003", project, f"{project.file} cannot be read: {error}") from error


def _read(source: _SettingLocation) -> dict[str, Any]:
    try:
        import tomllib

        return tomllib.loads(source.path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _wrong("SM-CONFIG-003", source, f"{source.file} cannot be read: {error}") from error


_CHECKPOINTS = "a table of checkpoints by name: each a path, or a table with its path"
_KINDS: Mapping[str, tuple[type, str]] = {
    "migrations": (str, "the path of a folder"),
    "checkpoint": (str, "the path of a checkpoint"),
    "checkpoints": (dict, _CHECKPOINTS),
    "targets": (dict, "a table of revisions by store"),
    "stores": (dict, "a table of operators' stores, such as aggregation-0, by the names they get"),
    "rules": (dict, "a table of levels (error, warning, off) by rule"),
    "preview": (dict, "a table of stores, each a table of what is expected of its fields"),
    "spark": (dict, "a table of values by settings such as spark.sql.session.timeZone"),
    "values": (bool, "true or false"),
    "mask": (list, "a list of columns"),
    "file_template": (str, "a text"),
    "truncate_slug_length": (int, "a number"),
    "timezone": (str, "the name of a time zone"),
    "post_write_hooks": (list, "a list of tables, each with a name and a type"),
}


_PARTS: Mapping[str, tuple[type, str]] = {
    "path": (str, "the path of a checkpoint"),
    "code": (list, "a list of MODULE:OBJECT"),
    "targets": (dict, "a table of revisions by store"),
    "operator": (int, "the number or name of a stateful operator"),
    "query": (str, "MODULE:FUNCTION"),
    "lock": (str, "the path of a lock file"),
}


def _checkpoints(source: _SettingLocation, given: Any) -> dict[str, NamedCheckpoint]:
    if not isinstance(given, dict):
        raise _wrong("SM-CONFIG-004", source, f"checkpoints of {source.place} is {_CHECKPOINTS}.")
    found = {name: _checkpoint(source, name, value) for name, value in given.items()}
    names: dict[str, str] = {}
    for name, each in found.items():
        if names.setdefault(each.path, name) != name:
            both = f"{names[each.path]} and {name}"
            raise _wrong(
                "SM-CONFIG-005", source, f"checkpoints.{both} of {source.place} are one path."
            )
    return found


def _checkpoint(source: _SettingLocation, name: str, given: Any) -> NamedCheckpoint:
    place = f"checkpoints.{name} of {source.place}"
    parts = {"path": given} if isinstance(given, str) else given
    if not isinstance(parts, dict) or "path" not in parts:
        raise _wrong("SM-CONFIG-006", source, f"{place} is a path, or a table with one.")
    for part, value in parts.items():
        if part not in _PARTS:
            known = ", ".join(_PARTS)
            raise _wrong(
                "SM-CONFIG-007",
                source,
                f"checkpoints.{name} of {source.place} has no {part}: it has {known}.",
            )
        kind, words = _PARTS[part]
        within = [*value.values()] if isinstance(value, dict) else value if kind is list else []
        is_kind = type(value) is kind or (part == "operator" and type(value) is str)
        if not is_kind or not all(isinstance(each, str) for each in within):
            raise _wrong(
                "SM-CONFIG-008", source, f"checkpoints.{name}.{part} of {source.place} is {words}."
            )
    return NamedCheckpoint(name, **{**parts, "code": tuple(parts.get("code", ()))})


def _spark_settings(
    source: _SettingLocation, given: Mapping[str, Any], start: str = ""
) -> Iterator[tuple[str, Any]]:
    """Spark's settings by their names, as texts.

    TOML has a name with dots that is not quoted as tables within each other.
    """
    for part, value in given.items():
        name = f"{start}{part}"
        if isinstance(value, dict):
            yield from _spark_settings(source, value, f"{name}.")
            continue
        if not name.startswith("spark.sql."):
            raise _wrong(
                "SM-CONFIG-013",
                source,
                f"spark of {source.place} has {name}: it takes settings of spark.sql alone, and "
                "spark-defaults.conf in SPARK_CONF_DIR the others.",
            )
        is_bool, is_number = isinstance(value, bool), isinstance(value, int | float)
        yield name, str(value).lower() if is_bool else str(value) if is_number else value


def _check(source: _SettingLocation, name: str, value: Any) -> None:
    if name not in _KINDS:
        known = ", ".join(each.name for each in fields(Configuration))
        raise _wrong(
            "SM-CONFIG-009", source, f"{source.place} has no setting {name}: it has {known}."
        )
    kind, words = _KINDS[name]
    is_table = isinstance(value, dict) and name != "checkpoints"
    parts: list[Any] = list(value.values()) if is_table and name != "preview" else []
    stores = list(value.values()) if isinstance(value, dict) and name == "preview" else ()
    hooks = value if isinstance(value, list) and name != "mask" else ()
    parts += value if isinstance(value, list) and name == "mask" else ()
    if (
        not isinstance(value, kind)
        or (kind is int and isinstance(value, bool))
        or not all(isinstance(each, str) for each in parts)
        or not all(isinstance(each, dict) for each in stores)
        or not all(isinstance(each, dict) and {"name", "type"} <= each.keys() for each in hooks)
    ):
        raise _wrong("SM-CONFIG-010", source, f"{name} of {source.place} is {words}.")
    if name == "stores" and len(set(parts)) < len(parts):
        raise _wrong(
            "SM-CONFIG-011", source, f"stores of {source.place} has two names for one operator."
        )


def _wrong(code: str, source: _SettingLocation, summary: str) -> ConfigurationError:
    return ConfigurationError(code, summary, path=str(source.path))
