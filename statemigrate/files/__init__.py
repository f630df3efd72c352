"""Where bytes live: paths that follow no link, documents with bounds, files for the owner alone."""

from statemigrate.files.confined import ConfinedPath
from statemigrate.files.json_text import parse_json
from statemigrate.files.names import whole_number
from statemigrate.files.places import local_path

__all__ = ["ConfinedPath", "local_path", "parse_json", "whole_number"]
