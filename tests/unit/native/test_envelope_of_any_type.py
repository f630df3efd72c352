"""An envelope holds values of types that Avro has not, in whatever form PySpark takes them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from statemigrate import Struct, migrated
from statemigrate.errors import ValueMismatchError
from statemigrate.scripts import ScriptFolder

DDL = "m MAP<INT, DATE>, took INTERVAL DAY TO SECOND, `a b` DECIMAL(18,2), at TIMESTAMP"
SCRIPT = f'''"""A baseline."""
from statemigrate.formats import Struct

revision = "cccc77778888"
down_revision = None
branch_labels = ("names",)
store = "names"
old = None
new = Struct("{DDL}")
'''
ROWS = pd.DataFrame({"key": ["a"], "amount": [1]})
END = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def updated(tmp_path, row):
    scripts = ScriptFolder.create(tmp_path / "migrations")
    (scripts.versions / "baseline.py").write_text(SCRIPT)

    def update(key, pdfs, state):
        state.update(row)
        yield state.getOption

    state = GroupState(
        None, 0, 0, "NoTimeout", False, True, False, False, False, -1, b"key", StructType()
    )  # fmt: skip
    wrapped = migrated(update, store="names", migrations=tmp_path / "migrations")
    return list(wrapped(("a",), iter([ROWS]), state)), state.get


def test_what_pyspark_takes_is_stored(tmp_path):
    given = ({np.int64(1): END}, pd.Timedelta(5, "s"), Decimal(10) / 3, END)
    seen, (_, payload, _) = updated(tmp_path, given)
    expected = ({1: END.date()}, dt.timedelta(seconds=5), Decimal("3.33"), END)
    assert seen == [expected]
    assert Struct(DDL).decode(payload)["m"] == {1: END.date()}


def test_what_the_state_cannot_hold_is_the_functions_fault(tmp_path):
    with pytest.raises(ValueMismatchError, match=r"The processor put into state names") as raised:
        updated(tmp_path, ({"x": END}, None, None, None))
    assert raised.value.data["store"] == "names"
