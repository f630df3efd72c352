"""Migrate, write, roll back, write, migrate again: on each engine as a twin that never went."""

from __future__ import annotations

from typing import Any

import pytest
from complement_lots import NEW, OLD, OUTPUT, ROWS, SCRIPT, Lots, NewLots, Twin
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pipelines import Pipeline

from statemigrate import backfill, migrated, status
from statemigrate.deployment import Declared, DeploymentSettings, plan_store
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.scripts import ScriptFolder

pytestmark = pytest.mark.spark

_KEYS = 60


class _Life:
    """A query of one engine from deployment to deployment, and its twin."""

    def __init__(self, pipeline: Any, folder: Any, seed: int) -> None:
        self.pipeline = pipeline
        self.folder = folder
        self.twin = Twin(seed, _KEYS)

    def plain(self, count: int = 80) -> None:
        """The first code, which knows of no script; on pages and the embedded engine it is ours."""
        self._run(Lots(), self.twin.rows(OLD, count))

    def run(self, fields: Any, count: int, *, killed: bool = False) -> None:
        """Deploy code of a format with rows; ``killed`` fails the batch once after it was done."""
        rows = self.twin.rows(fields, count)
        if killed:
            self.pipeline.fail_on = {self.batch}
            with pytest.raises(Exception, match="refuses batch"):
                self._run(self.code(fields), rows)
            rows = []
        self._run(self.code(fields), rows)

    @property
    def batch(self) -> int:
        """The number of the next batch."""
        return max((batch for batch, _ in self.pipeline.handed), default=-1) + 1

    def code(self, fields: Any, *, complement: bool | None = True) -> Any:
        more: dict[str, Any] = {}
        if type(self.pipeline) is NativePipeline and self.pipeline.checkpoint.exists():
            more["checkpoint"] = self.pipeline.checkpoint
        return migrated(
            (Lots if fields is OLD else NewLots)(),
            migrations=self.folder,
            targets={"lots": "base" if fields is OLD else "head"},
            complement=complement,
            **more,
        )

    def check(self, fields: Any, *, complement: bool | None = True) -> None:
        """Every key, as the code of a format sees it."""
        before = len(self.pipeline.handed)
        self._run(self.code(fields, complement=complement), self.twin.asking())
        rows = [row for _, some in self.pipeline.handed[before:] for row in some]
        assert dict(rows) == self.twin.shown(fields)

    def _run(self, processor: Any, rows: Any) -> None:
        if rows:
            self.pipeline.feed(rows)
        pipeline = self.pipeline
        if isinstance(pipeline, NativePipeline):
            query = pipeline.start(pipeline.result(processor), availableNow=True)
            assert query.awaitTermination(240)
        else:
            pipeline.deploy(processor)


@pytest.fixture(
    params=[
        pytest.param(Pipeline, id="embedded"),
        pytest.param(NativePipeline, id="spark", marks=pytest.mark.long),
        pytest.param(PagedPipeline, id="pages", marks=pytest.mark.long),
    ]
)
def life(request, spark, scripts, tmp_path) -> _Life:
    pipeline = request.param(spark, tmp_path / "pipeline", rows=ROWS, output=OUTPUT)
    return _Life(pipeline, scripts.write(amounts=SCRIPT), seed=7)


def _complements(life: _Life) -> Any:
    (store,) = status(
        life.pipeline.checkpoint, migrations=life.folder, spark=life.pipeline.spark
    ).stores
    return store.complement


@pytest.mark.long
def test_every_field_is_that_of_a_twin_that_never_went(life: _Life) -> None:
    life.plain()
    life.run(NEW, 40)
    life.run(NEW, 40, killed=True)
    life.check(NEW)
    life.run(OLD, 40, killed=True)
    life.run(OLD, 20)
    life.check(OLD)
    life.run(NEW, 40)
    life.check(NEW)
    life.check(OLD)


@pytest.mark.long
def test_complements_are_measured_stay_and_are_given_up(life: _Life) -> None:
    life.plain()
    life.check(NEW)
    noted = sum(each["note"] is not None for each in life.twin.lots.values())
    measured = _complements(life)
    assert measured.values == noted > 0
    assert measured.size > 40 * noted
    # Code that does not ask for them goes on with them.
    life.run(NEW, 20)
    life.check(OLD, complement=None)
    life.check(NEW, complement=None)
    if type(life.pipeline) is Pipeline:
        done = backfill(
            life.pipeline.checkpoint, retire=True, complement=True, migrations=life.folder
        )
        assert done.complements == ("lots__complement",)
    else:
        with pytest.raises(UnsupportedError) as caught:
            backfill(life.pipeline.checkpoint, retire=True, complement=True, migrations=life.folder)
        assert caught.value.code == "SM-BACKFILL-016"
    life.check(NEW, complement=False)
    assert _complements(life) is None
    for lot in life.twin.lots.values():
        lot["note"] = None
    life.check(OLD, complement=None)


def test_values_that_expire_and_envelopes_cannot_have_complements(scripts: Any) -> None:
    folder = scripts.write(amounts=SCRIPT)
    lineage = ScriptFolder(folder).lineages()["lots"]
    declared = Declared("lots", "value", lineage.format_of("base"), ttl=1000)
    settings = DeploymentSettings(targets={"lots": "base"}, complement=True)
    with pytest.raises(StartupError) as caught:
        plan_store(declared, lineage, None, settings)
    assert caught.value.code == "SM-START-033"
    with pytest.raises(StartupError) as caught:
        migrated(lambda *_: None, store="lots", migrations=folder, complement=True)
    assert caught.value.code == "SM-START-034"
