"""Migration scripts on disk: a folder that alembic's ScriptDirectory reads and writes.

The only part of the package that imports alembic.
"""

from statemigrate.scripts.choosing import Details, Entry
from statemigrate.scripts.folder import ScriptFolder

__all__ = ["Details", "Entry", "ScriptFolder"]
