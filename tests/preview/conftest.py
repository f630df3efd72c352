"""What a test previews: the checkpoint of a real query, with the code that it was made by."""

from support.sessions import spark, use_folders

__all__ = ["spark"]

use_folders("spark", "preview")
