"""Writes the functions of a script, as far as two formats tell what belongs in them.

Pure: two formats in, Python source out. What is a guess, or loses something, has a comment line
``# QUESTION: ...`` above it.
"""

from statemigrate.scripts.inference.infer import Transforms, infer_transforms

__all__ = ["Transforms", "infer_transforms"]
