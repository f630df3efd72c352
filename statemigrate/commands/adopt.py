"""`adopt`, and undoing it: room for the backfill's own source in an existing query's checkpoint."""

from statemigrate.native.adoption import adopt, undo_adoption

__all__ = ["adopt", "undo_adoption"]
