"""A life that makes a new checkpoint as a rewrite does, but for reading and writing rows."""

from __future__ import annotations

import hashlib
from pathlib import Path

from statemigrate.checkpoint.shape import describe
from statemigrate.files import LocalFiles
from statemigrate.rewrite.claims import check_separate
from statemigrate.rewrite.log_record import LogRecord
from statemigrate.rewrite.origin import Target
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.rewrite_report import RewriteReport
from statemigrate.rewrite.run import publish_shape, remove_unreferenced_files
from statemigrate.rewrite.source_logs import retained_logs
from statemigrate.rewrite.sources import RewriteOptions


def publishing(root: str, partitions: int) -> bool:
    """Make it in so many partitions; whether there was nothing of this plan before."""
    old, new = LocalFiles(Path(root, "old")), LocalFiles(Path(root, "new"))
    check_separate(old, new)
    plan = make_plan(describe(old), None, RewriteOptions(partitions=partitions))
    target = Target(new, plan.fingerprint, old.location)
    with target.begun() as made:
        is_new = made.finished(0) is None
        if is_new:
            made.require_own()
            made.files.delete_folder("state/0")
            for partition in range(partitions):
                made.files.put(f"state/0/{partition}/4.snapshot", f"of {partitions}".encode())
            made.finish(0, ())
        hashes = publish_shape(plan.new, made.files, retained_logs(plan, old, made.files))
        hashes["metadata"] = hashlib.sha256(old.get("metadata")).hexdigest()
        logs = LogRecord.of(plan, made.files, hashes)
        RewriteReport(old.location, plan.old.query_id, 3, "", (), logs=logs).write(made.files)
        remove_unreferenced_files(made.files)
        made.publish(old.get("metadata"))
    return is_new
