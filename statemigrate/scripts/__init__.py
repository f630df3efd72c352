"""Migration scripts on disk: a folder that alembic's ScriptDirectory reads and writes.

The only part of the package that imports alembic.
"""

from statemigrate.scripts.folder import ScriptFolder
from statemigrate.scripts.listing import Details, Entry

__all__ = ["Details", "Entry", "ScriptFolder"]
