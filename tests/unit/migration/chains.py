"""One store's chain of two scripts, small enough to follow by eye."""

from statemigrate.formats import Struct
from statemigrate.migration import Lineage, Migration

A = Struct("a BIGINT")
B = Struct("b BIGINT")
C = Struct("c STRING")


def a_to_b(value):
    return {"b": value["a"] * 10}


def b_to_a(value):
    return {"a": value["b"] // 10}


def b_to_c(value):
    return {"c": str(value["b"])}


def c_to_b(value):
    return {"b": int(value["c"])}


def migration(revision, down, **parts):
    defaults = {"store": "auctions", "path": f"versions/{revision}.py"}
    return Migration(revision, down, **{**defaults, **parts})


FIRST = migration("a1b2", None, old=A, new=B, upgrade=a_to_b, downgrade=b_to_a)
SECOND = migration("c3d4", "a1b2", old=B, new=C, upgrade=b_to_c, downgrade=c_to_b)
BASELINE = migration("b0b0", None, old=None, new=A)


def lineage(*migrations):
    return Lineage.build("auctions", migrations or (FIRST, SECOND))
