"""The state of Spark's own operators goes by their kind and number."""

import pytest

from statemigrate.checkpoint.operators.catalogue import KINDS, VARIABLES
from statemigrate.errors import LineageError
from statemigrate.formats import Struct
from statemigrate.migration import Lineage, check_store_name, is_operator_store
from statemigrate.migration.migration import OPERATOR_WORDS


def test_every_kind_of_operator_that_is_known_has_stores_of_its_name():
    # A variable of transformWithState goes by its own name.
    assert {kind.word for kind in KINDS if kind is not VARIABLES} == set(OPERATOR_WORDS)


@pytest.mark.parametrize(
    "name", ["aggregation-0", "deduplicate-within-watermark-12", "join-1.left", "join-1.right"]
)
def test_such_a_name_is_a_stores(name):
    assert is_operator_store(name)
    assert check_store_name(name) == name
    assert Lineage.unmigrated(name, Struct("a INT")).resolve(f"{name}@head") == "base"


@pytest.mark.parametrize("name", ["orders-1", "aggregation", "aggregation-", "limit-0.left", "a.b"])
def test_no_other_name_may_have_a_hyphen_or_a_dot(name):
    assert not is_operator_store(name)
    if name != "aggregation":
        with pytest.raises(LineageError, match="cannot be the name of a store"):
            check_store_name(name)
