"""A PySpark that lacks what is needed is named before anything else goes wrong."""

import pyspark
import pytest

from statemigrate import migrated
from statemigrate.errors import UnsupportedError


class Processor:
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timer_values):
        return iter(())


def test_a_pyspark_that_is_too_old_is_refused(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    with pytest.raises(UnsupportedError) as caught:
        migrated(Processor())
    assert caught.value.found == "PySpark 4.0.1"
    assert "pip install 'pyspark>=4.1,<5'" in caught.value.next_action


@pytest.mark.parametrize("version", ["4.1.0", "4.3.1", "4.10.0.dev1", "5.0.0"])
def test_a_newer_one_is_not(monkeypatch, version):
    monkeypatch.setattr(pyspark, "__version__", version)
    processor = Processor()
    assert migrated(processor) is processor
