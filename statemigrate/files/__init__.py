"""Where bytes live: one protocol for the files of a checkpoint, and documents with bounds."""

from statemigrate.files.confined import ConfinedPath
from statemigrate.files.documents import parse_json, whole_number
from statemigrate.files.local import LocalFiles
from statemigrate.files.protocol import FileEntry, Files, local_path

__all__ = [
    "ConfinedPath",
    "FileEntry",
    "Files",
    "LocalFiles",
    "local_path",
    "parse_json",
    "whole_number",
]
