"""Code of the embedded engine is previewed on a copy of its checkpoint, key by key and by tables."""

import embedded_code as code
import pytest
from previewed_query import Query, fields

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


class EmbeddedLife(Query):
    """A query of the embedded engine that has run over files."""

    def run(self):
        streams = [self.spark.readStream.schema("k STRING, v BIGINT, id BIGINT, at TIMESTAMP").json(str(each)) for each in self.inputs]
        query = self.function(*streams).start(availableNow=True)
        assert query.awaitTermination(180)

    def preview(self, *given, **options):
        handed = list(code.HANDED)
        found = super().preview(*given, **options)
        assert handed == code.HANDED, "the sink is never run"
        return found


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(code, "CHECKPOINT", str(tmp_path / "checkpoint"))
    return tmp_path

def test_smoke(spark, place):
    query = EmbeddedLife(spark, place, code.totals, None)
    same = query.preview(code.totals)
    print(same)
    assert same.unexpected == ()
    wrong = query.preview(code.wrong_totals)
    print(wrong)
    assert fields(wrong) == {("total", "sum"), ("output", "sum")}
