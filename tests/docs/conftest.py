"""Pages, run and in a browser."""

from support.browsers import browser

__all__ = ["browser"]
