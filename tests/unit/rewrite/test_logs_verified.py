"""The logs of a new checkpoint: what was altered since, or was written wrong, is a problem."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.source_logs import KINDS
from support.spark_checkpoints import aggregation, put, taken

from statemigrate.checkpoint.shape import describe
from statemigrate.files import LocalFiles
from statemigrate.native.adoption_files import OffsetLog, new_backup
from statemigrate.rewrite.log_record import LogRecord
from statemigrate.rewrite.rewrite_plan import RewritePlan, make_plan
from statemigrate.rewrite.rewrite_report import RewriteReport, read_report
from statemigrate.rewrite.run import publish_shape
from statemigrate.rewrite.source_logs import retained_logs
from statemigrate.rewrite.sources import RewriteOptions
from statemigrate.rewrite.verify_logs import compared_logs

YEAR = 365 * 86_400_000
WATERMARK = 1_700_000_000_000


def published(
    old: Path,
    new: Path,
    options: RewriteOptions | None = None,
    fault: Callable[[RewritePlan], RewritePlan] = lambda plan: plan,
) -> RewriteReport:
    """All that a rewrite writes but state, and its report, as it is read again."""
    before, after = LocalFiles(old), LocalFiles(new)
    plan = fault(make_plan(describe(before), None, options))
    hashes = publish_shape(plan.new, after, retained_logs(plan, before, after))
    after.put("metadata", before.get("metadata"))
    hashes["metadata"] = hashlib.sha256(before.get("metadata")).hexdigest()
    logs = LogRecord.of(plan, after, hashes)
    report = RewriteReport(str(old), plan.old.query_id, plan.old.batch, "", (), logs=logs)
    report.write(after)
    return read_report(after)


def found(old: Path | None, new: Path, kind: str = "problem") -> list[str]:
    files = None if old is None else LocalFiles(old)
    report = read_report(LocalFiles(new))
    return [
        each.text for each in compared_logs(files, LocalFiles(new), report) if each.kind == kind
    ]


def altered(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Four batches with a watermark; the source has taken four files."""
    root = aggregation(tmp_path / "old")
    for batch in range(4):
        altered(
            root / f"offsets/{batch}", '"batchWatermarkMs": 0', f'"batchWatermarkMs": {WATERMARK}'
        )
        altered(root / f"commits/{batch}", ":0}", f":{WATERMARK}}}")
    return root


@pytest.fixture
def new(old: Path, tmp_path: Path) -> Path:
    published(old, tmp_path / "new")
    return tmp_path / "new"


def test_what_the_rewrite_wrote_is_fine(old: Path, new: Path) -> None:
    assert found(old, new) == []
    assert found(old, new, "untried") == []
    fine = " ".join(found(old, new, "fine"))
    for name in ("metadata", "offsets/2", "offsets/3", "commits/2", "commits/3", "source 0"):
        assert name in fine


LATER = {f"{WATERMARK}": f"{WATERMARK + YEAR}"}
ALTERATIONS = {
    "a watermark": ("offsets/3", LATER),
    "a watermark of the batch before": ("offsets/2", LATER),
    "the next watermark": ("commits/3", LATER),
    "the next watermark of the batch before": ("commits/2", LATER),
    "a source's offset": ("offsets/3", {'"logOffset":3': '"logOffset":2'}),
    "a source's offset of the batch before": ("offsets/2", {'"logOffset":2': '"logOffset":1'}),
    "a setting": ("offsets/3", {'"lz4"': '"zstd"'}),
    "the clock": ("offsets/3", {'"batchTimestampMs":1': '"batchTimestampMs":2'}),
    "the query": ("metadata", {"2b9f2f0e": "2b9f2f0f"}),
    "a file taken": ("sources/0/1", {"file:///in/1": "file:///in/7"}),
    "when a file was changed": ("sources/0/1", {'"timestamp":1': '"timestamp":2'}),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_what_was_altered_since_is_named(old: Path, new: Path, name: str) -> None:
    file, texts = ALTERATIONS[name]
    for before, after in texts.items():
        altered(new / file, before, after)
    assert any(file in each for each in found(old, new))
    # Without the old checkpoint too.
    assert any(file in each for each in found(None, new))


@pytest.mark.parametrize("file", ["sources/0/0", "sources/0/3"])
def test_a_file_of_a_sources_log_that_is_gone_is_named(old: Path, new: Path, file: str) -> None:
    (new / file).unlink()
    assert any(file in each for each in found(None, new))
    assert any("lacks 1" in each and f"file:///in/{file[-1]}" in each for each in found(old, new))


def test_a_file_put_into_a_sources_log_is_seen(old: Path, new: Path) -> None:
    path = new / "sources/0/3"
    path.write_text(f"{path.read_text()}\n{taken('file:///in/more', 3)}")
    assert any("1 more" in each and "file:///in/more" in each for each in found(old, new))


def went_on(new: Path, batches: int, *, compact: int | None = None, kept: int = 0) -> None:
    """As Spark does: further batches, a compact file of a source's log, and what goes with time."""
    for batch in range(4, 4 + batches):
        for folder in ("offsets", "commits"):
            text = (new / folder / "3").read_text()
            put(new, f"{folder}/{batch}", text.replace(":3}", f":{batch}}}").encode())
        put(new, f"sources/0/{batch}", f"v1\n{taken(f'file:///in/{batch}', batch)}".encode())
    if compact is not None:
        lines = [taken(f"file:///in/{each}", each) for each in range(compact + 1)]
        put(new, f"sources/0/{compact}.compact", "\n".join(["v1", *lines]).encode())
        for each in range(kept):
            (new / f"sources/0/{each}").unlink()


def test_a_query_that_went_on_is_no_problem(old: Path, new: Path) -> None:
    went_on(new, 8)
    assert found(old, new) == []
    assert found(old, new, "untried") == []


@pytest.mark.parametrize("kept", [1, 3, 9])
def test_a_log_that_spark_made_compact_is_no_problem(old: Path, new: Path, kept: int) -> None:
    went_on(new, 8, compact=9, kept=kept)
    assert found(old, new) == []


def test_a_compact_log_without_one_of_the_files_is_a_problem(old: Path, new: Path) -> None:
    went_on(new, 8, compact=9, kept=9)
    path = new / "sources/0/9.compact"
    path.write_text(path.read_text().replace(taken("file:///in/1", 1) + "\n", ""))
    assert any("file:///in/1" in each for each in found(old, new))
    assert found(None, new) != []


def test_a_file_that_is_gone_before_spark_made_its_log_compact_is_a_problem(
    old: Path, new: Path
) -> None:
    went_on(new, 3)
    (new / "sources/0/1").unlink()
    assert any("sources/0/1" in each for each in found(None, new))


def test_entries_that_spark_removed_are_not_taken_for_altered(new: Path) -> None:
    went_on(new, 8)
    for batch in (2, 3, 4):
        (new / f"offsets/{batch}").unlink()
        (new / f"commits/{batch}").unlink()
    assert found(None, new) == []
    assert len(found(None, new, "untried")) == 4
    # One that is gone between others was not removed by Spark.
    shutil.copy(new / "offsets/5", new / "offsets/2")
    assert any("offsets/3" in each for each in found(None, new))


def adopted(root: Path) -> None:
    """As `adopt` makes room for one more source in the last entries of the offset log."""
    log = OffsetLog(LocalFiles(root))
    found = log.read_on_restart()
    backup = new_backup(log.files, 1, found)
    assert len(list(backup.save(found))) == 2
    backup = backup.write("adopting")
    for each in found:
        log.files.replace(each.name, each.with_one_more())
    backup.write("adopted")


@pytest.mark.parametrize("which", [["new"], ["new", "new"], ["old"], ["old", "new"]])
def test_what_adopt_has_changed_since_is_no_problem(old: Path, new: Path, which: list[str]) -> None:
    for each in which:
        adopted(old if each == "old" else new)
    assert found(old, new) == []
    assert len(found(None, new, "untried")) == (2 if "new" in which else 0)
    # What is not in its copy is none of its.
    altered(new / "offsets/3", str(WATERMARK), str(WATERMARK + YEAR))
    assert any("offsets/3" in each for each in found(None, new))


def test_what_was_adopted_before_it_was_rewritten_is_no_problem(old: Path, tmp_path: Path) -> None:
    adopted(old)
    published(old, tmp_path / "new")
    assert found(old, tmp_path / "new") == []
    assert found(None, tmp_path / "new", "untried") == []


FAULTS: dict[str, Callable[[RewritePlan], RewritePlan]] = {
    "a watermark": lambda plan: _with_offsets(plan, watermark=WATERMARK + YEAR),
    "the clock": lambda plan: _with_offsets(plan, timestamp=2),
    "settings": lambda plan: _with_offsets(plan, pinned={}),
    "the next watermark": lambda plan: replace(
        plan,
        new=replace(
            plan.new, commits={n: replace(c, watermark=0) for n, c in plan.new.commits.items()}
        ),
    ),
    "offsets": lambda plan: replace(
        plan,
        new=replace(plan.new, offsets=dict.fromkeys(plan.new.offsets, plan.new.offsets[2])),
    ),
}


def _with_offsets(plan: RewritePlan, **parts: object) -> RewritePlan:
    entries = {n: replace(each, **parts) for n, each in plan.new.offsets.items()}  # type: ignore[arg-type]
    return replace(plan, new=replace(plan.new, offsets=entries))


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_rewrite_would_write_wrong_does_not_follow_from_the_old_logs(
    old: Path, tmp_path: Path, name: str
) -> None:
    published(old, tmp_path / "wrong", fault=FAULTS[name])
    # It is what was written; only the old logs tell that it is wrong.
    assert found(None, tmp_path / "wrong") == []
    problems = found(old, tmp_path / "wrong")
    assert any("does not follow" in each for each in problems), problems


def test_what_was_asked_for_is_no_problem(old: Path, tmp_path: Path) -> None:
    codec = "spark.sql.streaming.stateStore.compression.codec"
    options = RewriteOptions(
        partitions=3, conf={codec: "zstd"}, watermark=5, offsets={"0": {"logOffset": 1}}
    )
    published(old, tmp_path / "new", options)
    assert found(old, tmp_path / "new") == []
    fine = " ".join(found(old, tmp_path / "new", "fine"))
    assert f"but for spark.sql.shuffle.partitions, {codec}, the watermark, source 0" in fine
    assert "2 files taken" in fine
    assert not (tmp_path / "new/sources/0/2").exists()


@pytest.mark.parametrize("name", KINDS)
def test_what_another_source_keeps_is_compared_as_far_as_it_is_understood(
    old: Path, tmp_path: Path, name: str
) -> None:
    kind = KINDS[name]
    for batch in range(4):
        altered(old / f"offsets/{batch}", f'{{"logOffset":{batch}}}', kind.second)
    shutil.rmtree(old / "sources")
    for file, text in kind.files.items():
        put(old, f"sources/0/{file}", text.encode(errors="surrogateescape"))
    published(old, tmp_path / "new")
    assert found(old, tmp_path / "new") == []
    for file in kind.files:
        path = tmp_path / "new/sources/0" / file
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        assert any(f"sources/0/{file}" in each for each in found(None, tmp_path / "new"))
        path.write_bytes(before)


def test_a_checkpoint_of_a_release_without_the_record_says_that_it_was_not_compared(
    old: Path, new: Path
) -> None:
    report = read_report(LocalFiles(new))
    document = {name: each for name, each in report.to_json().items() if name != "logs"}
    replace(report, logs=None).write(LocalFiles(new))
    assert "logs" not in json.loads(json.dumps(document))
    assert found(old, new) == []
    assert len(found(old, new, "untried")) == 1
