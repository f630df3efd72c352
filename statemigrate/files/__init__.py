"""Where bytes live: one protocol for the files of a checkpoint, and documents with bounds."""

from statemigrate.files.confined import ConfinedPath
from statemigrate.files.documents.json_text import parse_json
from statemigrate.files.documents.names import whole_number
from statemigrate.files.local import LocalFiles
from statemigrate.files.places import local_path
from statemigrate.files.protocol import Entry, Files

__all__ = [
    "ConfinedPath",
    "Entry",
    "Files",
    "LocalFiles",
    "local_path",
    "parse_json",
    "whole_number",
]
