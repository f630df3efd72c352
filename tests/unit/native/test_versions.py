"""A PySpark that lacks what is needed is named before anything else goes wrong."""

import pyarrow as pa
import pyspark
import pytest

from statemigrate import migrated, paged
from statemigrate.checkpoint.rows.hashing import partition_of
from statemigrate.errors import UnsupportedError
from statemigrate.native.session import hashed_into
from statemigrate.native.versions import check_kind


class Processor:
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timer_values):
        return iter(())


def test_a_pyspark_that_is_too_old_is_refused(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "3.5.6")
    with pytest.raises(UnsupportedError) as caught:
        migrated(Processor())
    assert caught.value.found == "PySpark 3.5.6"
    assert "pip install 'pyspark>=4.0,<5'" in caught.value.next_action


@pytest.mark.parametrize("version", ["4.0.2", "4.1.0", "4.3.1", "4.10.0.dev1", "5.0.0"])
def test_a_newer_one_is_not(monkeypatch, version):
    monkeypatch.setattr(pyspark, "__version__", version)
    processor = Processor()
    assert migrated(processor) is processor


def test_lists_that_spark_would_change_are_not_migrated(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    check_kind("value", "tally")
    check_kind("map", "tally")
    with pytest.raises(UnsupportedError, match="elements of a list") as caught:
        check_kind("list", "words")
    assert caught.value.data["store"] == "words"
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    check_kind("list", "words")


@pytest.mark.parametrize("partitions", [1, 2, 7, 200, 1000])
def test_every_partition_has_a_number_whose_hash_lies_in_it(partitions):
    numbers = hashed_into(partitions)
    places = partition_of([pa.array(numbers, pa.int32())], partitions)
    assert places.tolist() == list(range(partitions))


def test_pages_need_rows_in_processors(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    with pytest.raises(UnsupportedError, match="too old to keep state in pages") as caught:
        paged(None, by="key", processor=Processor(), output="n INT", checkpoint="new", pages=2)
    assert caught.value.expected == "PySpark 4.1 or newer"
