"""Histories of deployments on real Spark, each compared with a plain model."""

from support.sessions import spark, use_folders

__all__ = ["spark"]

use_folders("histories", "native", "spark")
