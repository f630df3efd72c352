"""Where bytes live: one protocol for the files of a checkpoint, and documents with bounds."""

from statemigrate.files.confined import ConfinedPath
from statemigrate.files.documents import parse_json, whole_number
from statemigrate.files.local import LocalFiles
from statemigrate.files.protocol import Entry, Files, local_path

__all__ = [
    "ConfinedPath",
    "Entry",
    "Files",
    "LocalFiles",
    "local_path",
    "parse_json",
    "whole_number",
]
