"""Migrations of one store, the chain they form, and the composed transforms along it.

Pure: no file is read and nothing heavy is imported. `statemigrate.scripts` fills these classes
from a folder of scripts; the engines only ever see what is here.
"""

from statemigrate.migration.lineage import (
    RELATIVE,
    Fork,
    Lineage,
    chain_faults,
    first_fork,
    lineage_with,
)
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
    imported_inside,
    is_operator_store,
    takes,
    takes_key,
)
from statemigrate.migration.path import (
    FEW,
    ArrowThreshold,
    ColumnWay,
    MigrationPath,
    Step,
    check_readable,
    step_of,
    through,
)
from statemigrate.migration.stages import Entry, Stage, rekeyed, stages_of, upgraded_table

__all__ = [
    "BASE",
    "FEW",
    "RELATIVE",
    "ArrowThreshold",
    "ColumnWay",
    "Direction",
    "Entry",
    "ExampleValue",
    "Fork",
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
    "chain_faults",
    "check_readable",
    "check_revision",
    "check_store_name",
    "first_fork",
    "imported_inside",
    "is_operator_store",
    "lineage_with",
    "rekeyed",
    "stages_of",
    "step_of",
    "takes",
    "takes_key",
    "through",
    "upgraded_table",
]
