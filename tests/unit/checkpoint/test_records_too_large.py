"""What Spark's files of state cannot hold is refused by name."""

import numpy as np
import pytest

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.changelog import PUT, records
from statemigrate.errors import UnsupportedError

SMALL = Rows(np.zeros(3, np.uint8), np.array([0, 3], np.int64))


@pytest.mark.parametrize("typed", [True, False])
def test_a_value_above_two_gibibytes_is_refused_with_its_size(typed):
    size = 2**31
    # One byte that stands for all of them.
    large = Rows(np.broadcast_to(np.zeros(1, np.uint8), size), np.array([0, size], np.int64))
    for keys, values in ((SMALL, large), (large, SMALL)):
        with pytest.raises(UnsupportedError, match="too large for Spark's files") as caught:
            records(PUT, keys, values, typed=typed)
        assert caught.value.found == "2,147,483,648 bytes"
