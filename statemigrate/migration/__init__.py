"""Migrations of one store, the chain they form, and the composed transforms along it.

Pure: no file is read and nothing heavy is imported. `statemigrate.scripts` fills these classes
from a folder of scripts; the engines only ever see what is here.
"""

from statemigrate.migration.lineage import Lineage
from statemigrate.migration.migration import (
    BASE,
    Direction,
    ExampleValue,
    Merge,
    Migration,
    OpenQuestion,
    Rekey,
    TableTransform,
    TimeToLive,
    Transform,
    check_revision,
    check_store_name,
    is_operator_store,
)
from statemigrate.migration.path import MigrationPath, Step
from statemigrate.migration.stages import Entry, Stage, stages_of

__all__ = [
    "BASE",
    "Direction",
    "Entry",
    "ExampleValue",
    "Lineage",
    "Merge",
    "Migration",
    "MigrationPath",
    "OpenQuestion",
    "Rekey",
    "Stage",
    "Step",
    "TableTransform",
    "TimeToLive",
    "Transform",
    "check_revision",
    "check_store_name",
    "is_operator_store",
    "stages_of",
]
