"""Where bytes live: paths that follow no link, documents with bounds, files for the owner alone."""

from statemigrate.files.confined import ConfinedPath
from statemigrate.files.json_text import parse_json
from statemigrate.files.names import whole_number

__all__ = ["ConfinedPath", "parse_json", "whole_number"]
