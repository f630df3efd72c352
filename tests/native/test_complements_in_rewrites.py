"""A rewrite takes complements along, or says what only the old checkpoint has then."""

from __future__ import annotations

from typing import Any

import pytest
from complement_lots import NEW, OLD, OUTPUT, REVISION, ROWS, SCRIPT, Lots, NewLots, Twin
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline

from statemigrate import migrated, paged, plan, preview, rewrite
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = pytest.mark.spark
SETTINGS: dict[str, Any] = {}
"""What the deployed code below is given: it is named by its module, as on a command line."""


class _Life:
    """A query whose state `migrated` code with complements began to migrate, and its twin."""

    def __init__(
        self, spark: Any, folder: Any, place: Any, engine: type[NativePipeline] = NativePipeline
    ) -> None:
        self.folder = folder
        self.twin = Twin(7, 60)
        self.pipeline = engine(spark, place, rows=ROWS, output=OUTPUT)
        self.run(Lots(), OLD, 80)
        self.run(self.code(NEW), NEW, 20)

    def code(self, fields: Any, *, complement: bool | None = True) -> Any:
        is_paged = isinstance(self.pipeline, PagedPipeline)
        more = {} if is_paged else {"checkpoint": self.pipeline.checkpoint}
        return migrated(
            (Lots if fields is OLD else NewLots)(),
            migrations=self.folder,
            targets={"lots": "base" if fields is OLD else "head"},
            complement=complement,
            **more,
        )

    def run(self, processor: Any, fields: Any, count: int) -> None:
        self.pipeline.feed(self.twin.rows(fields, count))
        self.pipeline.deploy_natively(processor)

    def check(self, fields: Any, *, complement: bool | None = True) -> None:
        before = len(self.pipeline.handed)
        self.pipeline.feed(self.twin.asking())
        self.pipeline.deploy_natively(self.code(fields, complement=complement))
        rows = [row for _, some in self.pipeline.handed[before:] for row in some]
        assert dict(rows) == self.twin.shown(fields)


@pytest.fixture
def life(spark: Any, scripts: Any, tmp_path: Any) -> _Life:
    return _Life(spark, scripts.write(amounts=SCRIPT), tmp_path / "pipeline")


def deployed(events: Any) -> Any:
    """The deployed query, as `rewrite --code` runs it on no rows."""
    code = migrated(NewLots(), migrations=SETTINGS["folder"], complement=SETTINGS["complement"])
    return events.groupBy("key").transformWithState(code, OUTPUT, "Update", "None")


def deployed_on_pages(events: Any) -> Any:
    """The same code on pages."""
    code = migrated(NewLots(), migrations=SETTINGS["folder"], complement=SETTINGS["complement"])
    return paged(
        events,
        by=["key"],
        processor=code,
        output=OUTPUT,
        checkpoint=SETTINGS["checkpoint"],
        pages=3,
        timeMode="None",
    )


@pytest.mark.long
def test_state_that_began_to_migrate_comes_along_as_it_is_with_its_complements(
    life: _Life, tmp_path: Any
) -> None:
    spark, old, new = life.pipeline.spark, life.pipeline.checkpoint, tmp_path / "new"
    stored = life.pipeline.all_state()
    assert [bool(stored[name]) for name in sorted(stored)] == [True] * 3
    made = rewrite(old, new, migrations=life.folder, spark=spark, apply=True)
    assert (made.plan.questions, made.plan.answered, made.plan.left_out) == ((), (), {})
    verified = verify(old, new, migrations=life.folder, spark=spark)
    assert (verified.problems, verified.untried) == ((), ())
    life.pipeline.checkpoint_directory = new
    assert life.pipeline.all_state() == stored
    # The same comes with every field, on both ways.
    life.check(OLD)
    life.run(life.code(OLD), OLD, 20)
    life.check(NEW)


@pytest.mark.long
@pytest.mark.parametrize("complement", [True, None])
def test_new_code_has_the_complements_or_is_asked_about_them(
    life: _Life, tmp_path: Any, complement: bool | None
) -> None:
    SETTINGS.update(folder=life.folder, complement=complement)
    spark, old, new = life.pipeline.spark, life.pipeline.checkpoint, tmp_path / "new"
    target = NewCode("test_complements_in_rewrites:deployed", {"events": ROWS}, mode="update")
    keywords: dict[str, Any] = {"target": target, "migrations": None, "spark": spark}
    found = rewrite(old, new, **keywords)
    asked = {each.name: each.kind for each in found.plan.questions}
    assert asked == ({} if complement else {"lots__complement": "gone"})
    answers = RewriteAnswers(accept=frozenset(each.acceptance for each in found.plan.questions))
    rewrite(old, new, answers=answers, apply=True, **keywords)
    life.pipeline.checkpoint_directory = new
    kept = {"lots__complement"} if complement else set()
    assert life.pipeline.variables() == {"lots", f"lots@{REVISION}", *kept}
    if not complement:
        return
    life.check(OLD)
    life.check(NEW)


class ExpiringLots(NewLots):
    """The same lots, each of which expires."""

    def init(self, handle: Any) -> None:
        self.names = list(self.fields.values())
        ddl = ", ".join(f"{name} STRING" for name in self.names)
        self.lots = handle.getValueState("lots", ddl, ttlDurationMs=3_600_000)


def deployed_expiring(events: Any) -> Any:
    """Code on pages whose values expire."""
    code = migrated(
        ExpiringLots(), migrations=SETTINGS["folder"], complement=SETTINGS["complement"]
    )
    return paged(
        events,
        by=["key"],
        processor=code,
        output=OUTPUT,
        checkpoint=SETTINGS["checkpoint"],
        pages=3,
        timeMode="ProcessingTime",
    )


@pytest.mark.long
@pytest.mark.parametrize("complement", [True, False])
def test_a_time_to_live_comes_to_values_in_pages_only_without_complements(
    spark: Any, scripts: Any, tmp_path: Any, complement: bool
) -> None:
    folder = scripts.write(amounts=SCRIPT)
    life = _Life(spark, folder, tmp_path / "pipeline", PagedPipeline)
    if not complement:
        life.run(life.code(NEW, complement=False), NEW, 1)
    SETTINGS.update(folder=folder, complement=complement, checkpoint=life.pipeline.checkpoint)
    code = "test_complements_in_rewrites:deployed_expiring"
    target = NewCode(code, {"events": ROWS}, mode="update")
    found = plan(life.pipeline.checkpoint, target=target, migrations=folder, spark=spark)
    verdicts = {each.name: each.verdict for each in found.items}
    refused = [name for name, verdict in verdicts.items() if verdict == "cannot"]
    commands = [each.command for each in found.steps if "statemigrate rewrite" in each.command]
    if complement:
        pages, values = refused
        assert pages.endswith(" pages")
        assert values == "lots time to live"
        assert commands == []
        assert found.steps[0].text.startswith(f"Decide about {pages}")
    else:
        assert refused == []
        assert verdicts["lots time to live"] == "rewrite"
        assert len(commands) > 2


@pytest.mark.long
def test_pages_do_not_take_complements_of_variables(life: _Life, tmp_path: Any) -> None:
    options, new = RewriteOptions(pages=3), tmp_path / "new"
    with pytest.raises(RewriteError) as caught:
        rewrite(
            life.pipeline.checkpoint,
            new,
            options=options,
            migrations=life.folder,
            spark=life.pipeline.spark,
            apply=True,
        )
    assert (caught.value.code, caught.value.data["stores"]) == ("SM-REWRITE-064", ("lots",))
    assert not new.exists()
    # A plan has no command that would be refused.
    SETTINGS.update(folder=life.folder, complement=True, checkpoint=life.pipeline.checkpoint)
    code = "test_complements_in_rewrites:deployed_on_pages"
    target = NewCode(code, {"events": ROWS}, mode="update")
    checkpoint, spark = life.pipeline.checkpoint, life.pipeline.spark
    found = plan(checkpoint, target=target, migrations=life.folder, spark=spark)
    (change,) = (each for each in found.items if each.name.endswith(" pages"))
    assert change.verdict == "cannot"
    assert found.steps[0].text == f"Decide about {change.name}: {change.text}"
    assert not [each for each in found.steps if each.command.startswith("statemigrate rewrite")]
    # A preview begins with the state from before the last batch.
    life.run(life.code(NEW), NEW, 5)
    with pytest.raises(RewriteError) as caught:
        preview(checkpoint, target=target, batches=1, migrations=life.folder, spark=spark)
    assert caught.value.code == "SM-REWRITE-064"


@pytest.mark.long(weight=2)
@pytest.mark.parametrize("engine", [NativePipeline, PagedPipeline], ids=["into", "out of"])
def test_without_complements_state_comes_into_pages_and_out_of_them(
    spark: Any, scripts: Any, tmp_path: Any, engine: Any
) -> None:
    place, folder = tmp_path / "pipeline", scripts.write(amounts=SCRIPT)
    life = _Life(spark, folder, place, engine)
    life.check(NEW)
    given: dict[str, Any] = {"migrations": folder, "spark": spark}
    given["options"] = RewriteOptions(pages=0 if engine is PagedPipeline else 4)
    old, new = life.pipeline.checkpoint, tmp_path / "new"
    with pytest.raises(RewriteError) as caught:
        rewrite(old, new, apply=True, **given)
    assert caught.value.code == "SM-REWRITE-064"
    # Most pages have not been touched since.
    life.run(life.code(NEW, complement=False), NEW, 2)
    rewrite(old, new, apply=True, **given)
    assert verify(old, new, migrations=folder, spark=spark).problems == ()
    other = NativePipeline if engine is PagedPipeline else PagedPipeline
    life.pipeline = other(spark, place, rows=ROWS, output=OUTPUT)
    life.pipeline.checkpoint_directory = new
    life.check(NEW, complement=None)
    for lot in life.twin.lots.values():
        lot["note"] = None
    life.check(OLD, complement=None)


def test_a_plan_names_each_field_that_its_scripts_leave_out(
    spark: Any, scripts: Any, tmp_path: Any
) -> None:
    folder = scripts.write(amounts=SCRIPT)
    pipeline = NativePipeline(spark, tmp_path / "pipeline", rows=ROWS, output=OUTPUT)
    pipeline.feed(Twin(7, 60).rows(OLD, 80))
    pipeline.deploy_natively(Lots())
    found = rewrite(pipeline.checkpoint, tmp_path / "new", migrations=folder, spark=spark)
    assert found.plan.left_out == {("lots", REVISION): ("note",)}
    assert found.warnings[-1] == (
        f"revision {REVISION} leaves note of lots out: only {pipeline.checkpoint} has that then, "
        "so keep it for as long as you may need it"
    )
    assert found.to_json()["warnings"] == found.warnings
