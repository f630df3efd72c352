"""Migrations of one store, the chain they form, and the composed transforms along it.

Pure: no file is read and nothing heavy is imported. `statemigrate.scripts` fills these classes
from a folder of scripts; the engines only ever see what is here.
"""

from statemigrate.migration.lineage import Lineage
from statemigrate.migration.migration import (
    BASE,
    Direction,
    ExampleValue,
    Migration,
    Question,
    TimeToLive,
    Transform,
)
from statemigrate.migration.names import check_revision, check_store_name
from statemigrate.migration.path import Path, Step

__all__ = [
    "BASE",
    "Direction",
    "ExampleValue",
    "Lineage",
    "Migration",
    "Path",
    "Question",
    "Step",
    "TimeToLive",
    "Transform",
    "check_revision",
    "check_store_name",
]
