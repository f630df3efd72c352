"""Makes room for the control source in the offset log of an existing query, and takes it back.

Spark goes on from a checkpoint only with as many sources as its offset log has lines. The control
source is the query's last one, so that adopting a query is one line at the end of each file that
Spark reads when it starts again, and undoing is the removal of that line.
"""

from statemigrate.native.adoption.commands import adopt, undo_adoption
from statemigrate.native.adoption.outcome import Adoption, FileChange

__all__ = ["Adoption", "FileChange", "adopt", "undo_adoption"]
