"""Migration scripts on disk: a folder that alembic's ScriptDirectory reads and writes.

The only part of the package that imports alembic.
"""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.scripts.applied import Applied, applied_file, read_applied, write_applied
    from statemigrate.scripts.checksums import code_checksum
    from statemigrate.scripts.choosing import Details, Entry, chosen
    from statemigrate.scripts.folder import ScriptFolder, lineages_if_any, survey_of
    from statemigrate.scripts.heads import differing_heads, read_heads, write_head, write_heads
    from statemigrate.scripts.lens_text import DeclaredScript, declared
    from statemigrate.scripts.loading import Script, load, script_files
    from statemigrate.scripts.rebased_branch import RebasedScript, rebased
    from statemigrate.scripts.rekeying import ColumnSource, KeyChange, Merging
    from statemigrate.scripts.script_reader import read
    from statemigrate.scripts.source import quoted
    from statemigrate.scripts.squashing import (
        FOLDER,
        SquashedScript,
        copied_files,
        of_functions,
        of_lenses,
        parts_up_to,
    )
    from statemigrate.scripts.survey import Survey, survey
else:
    make_face(
        __name__,
        {
            "applied": "Applied applied_file read_applied write_applied",
            "checksums": "code_checksum",
            "choosing": "Details Entry chosen",
            "folder": "ScriptFolder lineages_if_any survey_of",
            "heads": "differing_heads read_heads write_head write_heads",
            "lens_text": "DeclaredScript declared",
            "loading": "Script load script_files",
            "script_reader": "read",
            "rebased_branch": "RebasedScript rebased",
            "rekeying": "ColumnSource KeyChange Merging",
            "source": "quoted",
            "squashing": "FOLDER SquashedScript copied_files of_functions of_lenses parts_up_to",
            "survey": "Survey survey",
        },
    )
