"""Two commands that make a checkpoint in one directory: one is refused, whatever the order."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import pytest
from support.new_checkpoints import is_published, is_shut
from support.object_store import MemoryFiles, Request
from support.offset_logs import tree
from support.spark_checkpoints import aggregation, put

from statemigrate import fork
from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.shape import describe
from statemigrate.errors import CheckpointError, CheckpointInUseError, RewriteError
from statemigrate.files import Files, LocalFiles
from statemigrate.files.documents import sealed
from statemigrate.native.adoption_files import OffsetLog
from statemigrate.rewrite.claims import OWNERS, Owner, claim
from statemigrate.rewrite.claims import making_checkpoint as making
from statemigrate.rewrite.origin import Target

forking = import_module("statemigrate.rewrite.fork")
METADATA = b'{"id":"2b9f2f0e-0000-4000-8000-000000000000"}'
OF_A_DEAD_PROCESS = """
import sys
from pathlib import Path
from statemigrate.files import LocalFiles
from statemigrate.rewrite.origin import Target
target = Target(LocalFiles(Path(sys.argv[1])), "plan", "/old")
with target.begun() as new:
    new.files.put("state/0/0/1.delta", b"half of it")
    import os
    os._exit(1)
"""


@pytest.fixture(params=["local", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return LocalFiles(tmp_path / "new") if request.param == "local" else MemoryFiles()


def owner_file(files: Files, number: int, owner: Owner) -> None:
    files.put(f"{OWNERS}/{number}.json", sealed(asdict(owner)))


def test_a_fork_into_a_place_that_another_fork_fills_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = aggregation(tmp_path / "old"), tmp_path / "new"
    copied = forking._copied
    refused: list[CheckpointInUseError] = []

    def with_another(*arguments: object) -> int:
        monkeypatch.setattr(forking, "_copied", copied)
        with pytest.raises(CheckpointInUseError) as caught:
            fork(old, new, at_batch=1)
        refused.append(caught.value)
        return copied(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(forking, "_copied", with_another)
    assert fork(old, new, at_batch=3).batch == 3
    assert refused[0].data["owner"]["process"] == os.getpid()
    assert refused[0].data["owner"]["verb"] == "fork"
    # Nothing of batch 1 is in it.
    assert describe(LocalFiles(new)).batch == 3
    assert not (new / "offsets" / "1").exists()


def test_a_rewrite_into_a_place_that_another_rewrite_fills_removes_nothing(files: Files) -> None:
    first, second = (Target(files, plan, "/old") for plan in ("first", "second"))
    with first.begun() as new:
        new.files.put("state/0/0/1.delta", b"the first one's")
        with pytest.raises(CheckpointInUseError) as caught, second.begun():
            pytest.fail("two at once")
        assert caught.value.data["owner"]["verb"] == "rewrite"
        assert files.get("state/0/0/1.delta") == b"the first one's"
        new.publish(METADATA)
    assert files.get("metadata") == METADATA
    assert [each.name for each in files.list("statemigrate", recursive=True)] == []
    with pytest.raises(RewriteError, match="is a checkpoint already") as complete:
        second.check()
    assert complete.value.data["contents"] == "checkpoint"


def test_of_two_that_claim_at_one_moment_one_is_refused() -> None:
    files = MemoryFiles()
    made = []

    def another_comes_first(request: Request) -> None:
        if request.verb == "create":
            files.store.watch = lambda request: None
            made.append(claim(files, "rewrite"))

    files.store.watch = another_comes_first
    with pytest.raises(CheckpointInUseError) as caught:
        claim(files, "fork")
    assert caught.value.data["owner"] == asdict(made[0].owner)
    made[0].require_own()
    made[0].release()


def test_one_that_was_published_since_it_was_looked_at_stays(files: Files) -> None:
    target = Target(files, "second", "/old")
    look = target.check

    def then_published() -> None:
        look()
        with Target(files, "first", "/old").begun() as new:
            new.files.put("state/0/0/1.delta", b"the first one's")
            new.publish(METADATA)

    object.__setattr__(target, "check", then_published)
    with pytest.raises(RewriteError, match="is a checkpoint already"), target.begun():
        pytest.fail("it is a checkpoint")
    assert files.get("state/0/0/1.delta") == b"the first one's"
    assert files.get("metadata") == METADATA


def test_where_the_process_has_ended_the_same_plan_goes_on_and_another_begins_anew(
    tmp_path: Path,
) -> None:
    new = tmp_path / "new"
    subprocess.run([sys.executable, "-c", OF_A_DEAD_PROCESS, str(new)], check=False)
    assert is_shut(new)
    assert not is_published(new)
    assert (new / "metadata").exists()
    files = LocalFiles(new)
    with Target(files, "plan", "/old").begun():
        assert files.get("state/0/0/1.delta") == b"half of it"
        assert is_shut(new)
    with Target(files, "other", "/old").begun() as begun:
        assert files.find("state") is None
        assert is_shut(new)
        begun.publish(METADATA)
    assert tree(new) == {"metadata": METADATA, "statemigrate": None}


def test_a_process_of_another_machine_is_never_taken_for_ended(files: Files) -> None:
    away = replace(Owner("rewrite"), machine="another", host="worker-7", process=12)
    owner_file(files, 1, away)
    for command in (Target(files, "plan", "/old").check, lambda: fork("/no", files)):
        with pytest.raises(CheckpointInUseError) as caught:
            command()
        assert caught.value.data["owner"]["host"] == "worker-7"
        path = caught.value.data["claim"]
        assert path in str(caught.value.next_action)
    # What the error says to do is enough.
    files.delete([path.removeprefix(f"{files.location}/")])
    with Target(files, "plan", "/old").begun() as new:
        new.publish(METADATA)


def test_a_claim_that_cannot_be_read_counts(files: Files) -> None:
    files.put(f"{OWNERS}/1.json", b"torn")
    with pytest.raises(CheckpointInUseError) as caught:
        claim(files, "rewrite")
    assert caught.value.data["owner"] is None


@pytest.mark.parametrize("way", ["a later claim", "its own removed"])
def test_who_was_taken_over_publishes_nothing(files: Files, way: str) -> None:
    with making(files, "rewrite") as made:
        made.shut()
        if way == "a later claim":
            owner_file(files, made.claim.number + 1, Owner("rewrite"))
        else:
            files.delete([f"{OWNERS}/{made.claim.number}.json"])
            owner_file(files, made.claim.number, Owner("rewrite"))
        with pytest.raises(CheckpointInUseError):
            made.publish(METADATA)
    assert CheckpointDirectory(files).is_unfinished
    # Its end says nothing of the other's claim.
    assert json.loads(files.get(f"{OWNERS}/{made.claim.number}.json"))["body"]["has_ended"] is (
        way == "a later claim"
    )


def test_a_process_of_the_same_number_is_another_one() -> None:
    mine = Owner("rewrite")
    assert mine.is_running is False, "no claim of this process has it"
    assert replace(mine, started="1").is_running is False
    parent = replace(mine, process=os.getppid(), started="1")
    assert parent.is_running is False
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    stat = Path(f"/proc/{child.pid}/stat")
    if stat.exists():
        started = stat.read_text().rpartition(")")[2].split()[19]
        running = replace(mine, process=child.pid, started=started)
        assert running.is_running is True
        child.kill()
        # It has ended before anybody has asked how.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert running.is_running is False
    child.kill()
    child.wait()


@pytest.mark.parametrize("verb", ["fork", "rewrite"])
def test_a_place_with_an_unfinished_fork_is_nobody_elses(tmp_path: Path, verb: str) -> None:
    old, new = aggregation(tmp_path / "old"), tmp_path / "new"
    with making(LocalFiles(new), "fork") as made:
        made.shut()
        put(new, "state/0/0/1.delta", b"half of it")
    run: Callable[[], object] = (
        (lambda: fork(old, new))
        if verb == "fork"
        else Target(LocalFiles(new), "plan", str(old)).check
    )
    with pytest.raises(RewriteError) as caught:
        run()
    assert "directory" in str(caught.value.next_action)
    assert (new / "state/0/0/1.delta").exists()


def test_what_looks_at_an_unfinished_checkpoint_is_told_so(tmp_path: Path) -> None:
    with making(LocalFiles(tmp_path), "rewrite") as made:
        made.shut()
    for look in (describe, OffsetLog, lambda files: fork(files, tmp_path.with_name("copy"))):
        with pytest.raises(CheckpointError) as caught:
            look(LocalFiles(tmp_path))
        assert "is not finished" in caught.value.summary


def test_a_fork_of_a_checkpoint_takes_no_claim_along(tmp_path: Path) -> None:
    old, new = aggregation(tmp_path / "old"), tmp_path / "new"
    put(old, f"{OWNERS}/1.json", sealed(asdict(Owner("rewrite"))))
    fork(old, new)
    assert not (new / "statemigrate" / "rewriting").exists()
