"""What a loss of power leaves, worked out from a journal: the three rules, and that all is seen."""

import os
from pathlib import Path

import pytest
from support.crash.journal import operations, stopped_at
from support.crash.library import Point
from support.crash.power import RULES, Disk

pytestmark = pytest.mark.kill
WRITER = "support.crash.writing"


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def lost(nurseries, tmp_path):
    """What is left of a folder after a function wrote in it and power went."""

    def lose(function: str, rule: str, seed: int = 0) -> dict[str, bytes]:
        root = tmp_path / "disk"
        root.mkdir()
        (root / "old").write_bytes(b"before")
        disk = Disk([root])
        journal = tmp_path / "journal"
        life = nurseries[0].run(
            f"{WRITER}:{function}", str(root), point=Point((str(root),), journal=str(journal))
        )
        assert life.ended == "returned", life.error
        disk.replay(operations(journal))
        disk.lay_out(rule, seed)
        return tree(root)

    return lose


def test_what_was_never_synced_is_gone_by_the_strict_rule(lost):
    assert lost("unsynced", "strict") == {"old": b"before"}


def test_names_without_bytes_are_left_by_the_rule_of_names(lost):
    assert lost("unsynced", "names") == {"old": b"before", "new": b""}


def test_what_was_synced_with_its_name_survives_every_rule(nurseries, tmp_path, lost):
    for rule in RULES:
        assert lost("synced", rule) == {"old": b"before", "new": b"whole"}
        for path in (tmp_path / "disk").iterdir():
            path.unlink()
        (tmp_path / "disk").rmdir()
        (tmp_path / "journal").unlink()


def test_a_synced_file_is_lost_with_a_name_that_was_not(lost):
    assert lost("renamed", "strict") == {"old": b"before"}


def test_a_part_of_what_was_not_synced_may_be_left(lost):
    assert lost("appended", "mixed", seed=3)["old"] in [
        b"before" + b"x" * 10 * n + b"x" * part for n in range(3) for part in range(11)
    ]


@pytest.mark.parametrize(("form", "left"), [("before", b"before"), ("torn", b"beforexxxxx")])
def test_a_process_ends_at_the_very_operation(nurseries, tmp_path, form, left):
    (tmp_path / "old").write_bytes(b"before")
    journal = str(tmp_path / "journal")
    point = Point((str(tmp_path / "old"),), number=1, form=form, journal=journal)
    life = nurseries[0].run(f"{WRITER}:appended", str(tmp_path), point=point)
    assert life.ended == "killed"
    assert (tmp_path / "old").read_bytes() == left
    assert stopped_at(Path(journal)) == f"operation 1, write {tmp_path / 'old'}"


def test_every_way_to_change_files_is_counted(nurseries, tmp_path):
    journal = tmp_path / "journal"
    root = tmp_path / "all"
    root.mkdir()
    life = nurseries[0].run(
        f"{WRITER}:everything", str(root), point=Point((str(root),), journal=str(journal))
    )
    assert life.ended == "returned", life.error
    kinds = "".join(each.kind for each in operations(journal))
    assert kinds == "MCWWSLRTUDS"
    assert life.counted == len(kinds)
    assert os.listdir(root) == ["c"]  # noqa: PTH208
