"""`verify`: whether every row of an old checkpoint is accounted for in the new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.files.opening import open_files
from statemigrate.native.spark_state.session import session_of
from statemigrate.rewrite.verifying.verify import Verified, verify_files

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


def verify(old: str | Path, new: str | Path, *, spark: Spark = None) -> Verified:
    """Read both checkpoints again through Spark, as of the batch that was rewritten.

    Compared are the rows of old with what the rewrite noted to have read, those of new with what it
    noted to have written, the partition of every key with Spark's hash of it, and of joins the
    counts with the rows. The new query may have gone on, as long as the state of that batch is
    kept. Raises `CheckpointError` where one of both cannot be read, or was not made by a rewrite.
    """
    return verify_files(open_files(old), open_files(new), session_of(spark, str(new)))
