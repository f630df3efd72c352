"""The same query on both engines, its state looked at from outside."""

from support.sessions import scripts, spark, use_folders

__all__ = ["scripts", "spark"]

use_folders("inspection", "native", "spark")
