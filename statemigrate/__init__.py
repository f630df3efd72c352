"""Versioned migrations for the live state of Spark Structured Streaming queries.

The public names. Each is imported when it is first used, so that ``import statemigrate`` loads
neither Spark nor RocksDB nor alembic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statemigrate.backfill import BackfillOptions
    from statemigrate.deployment import migrated
    from statemigrate.embedded.options import EngineOptions
    from statemigrate.embedded.progress import BatchProgress
    from statemigrate.embedded.query import EmbeddedQuery, RunningQuery
    from statemigrate.embedded.reader import StateReader
    from statemigrate.errors import StatemigrateError
    from statemigrate.formats import Avro, Format, Struct
    from statemigrate.scripts import ScriptFolder

_HOMES = {
    "Avro": "statemigrate.formats",
    "BackfillOptions": "statemigrate.backfill",
    "BatchProgress": "statemigrate.embedded.progress",
    "EmbeddedQuery": "statemigrate.embedded.query",
    "EngineOptions": "statemigrate.embedded.options",
    "Format": "statemigrate.formats",
    "RunningQuery": "statemigrate.embedded.query",
    "ScriptFolder": "statemigrate.scripts",
    "StateReader": "statemigrate.embedded.reader",
    "StatemigrateError": "statemigrate.errors",
    "Struct": "statemigrate.formats",
    "migrated": "statemigrate.deployment",
}

__all__ = [
    "Avro",
    "BackfillOptions",
    "BatchProgress",
    "EmbeddedQuery",
    "EngineOptions",
    "Format",
    "RunningQuery",
    "ScriptFolder",
    "StateReader",
    "StatemigrateError",
    "Struct",
    "migrated",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'statemigrate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
