"""What `status` says is next is true in the state that it is said in."""

from pathlib import Path

import pytest
from support.offset_logs import checkpoint

from statemigrate.commands.status import FamilyStatus, StoreStatus, next_step
from statemigrate.deployment.stored import Call
from statemigrate.native.adoption import adopt
from statemigrate.native.chunks import ChunkFiles, PlanRecord
from statemigrate.native.deployment_check import StoreRecord, write_record

OLD = FamilyStatus("auctions", "base", 3, {0: 3}, None)
BY_HAND = "run `statemigrate backfill {} --prepare --apply`, put with_backfill around its stream"
LEFT = StoreStatus("auctions", "value", "r1", "r1", 5, (OLD,), "")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(checkpoint(tmp_path / "c"))


def planned(root: str, chunks: int) -> None:
    """Chunk files that the query has not taken."""
    files = ChunkFiles(root)
    files.create()
    for number in range(chunks):
        path = Path(files.path) / "aa" / f"part-{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"PAR1")
    files.write_plan(PlanRecord("aa", 3, chunks, -1))


def recorded(root: str, call: Call) -> None:
    """The record of a start of code that this call declares."""
    write_record(root, {"auctions": StoreRecord(("auctions@r1", "auctions"), call=call)})


def test_without_a_control_source_it_is_adopted_first(root: str) -> None:
    assert next_step(LEFT, "native", root) == (
        "stop the query, declare its operator by stateful, which makes room for the source, and "
        f"start it again; or, in place of stateful, {BY_HAND.format(root)}"
    )
    recorded(root, "migrated")
    assert next_step(LEFT, "native", root) == (
        f"stop the query, {BY_HAND.format(root)} and start it again"
    )


def test_with_room_for_it_a_backfill_is_planned_once(root: str) -> None:
    adopt(root, apply=True, wait=0)
    assert next_step(LEFT, "native", root) == f"statemigrate backfill {root}"
    planned(root, 2)
    assert next_step(LEFT, "native", root) == (
        "run the query (one run with availableNow takes all chunks), with its operator declared by "
        "stateful (or with_backfill around its stream and migrated on its processor): 2 chunks of "
        f"its backfill wait to be taken; statemigrate status {root} --watch follows"
    )
    recorded(root, "stateful")
    assert "with its operator declared by stateful: 2 chunks" in next_step(LEFT, "native", root)
    recorded(root, "migrated")
    text = next_step(LEFT, "native", root)
    assert ("stateful" in text, "with_backfill around" in text) == (False, True)


def test_the_embedded_engine_goes_on_by_itself(root: str) -> None:
    assert next_step(LEFT, "embedded", root) == (
        "run the query: its backfill goes on (to the end of it in one run with availableNow and "
        f"BackfillOptions(drain=True)); or run statemigrate backfill {root} while it is stopped"
    )


def test_the_way_back_is_not_planned_towards_the_head(root: str) -> None:
    newer = FamilyStatus("auctions@r1", "r1", 3, {0: 3}, None)
    back = StoreStatus("auctions", "value", "base", "r1", 5, (newer,), "", goes_back=True)
    text = f"statemigrate rollback {root} --to auctions=base says how the values go back"
    assert next_step(back, "embedded", root) == text
    assert next_step(back, "native", root) == (
        f"{text}; until then code without stateful (or migrated) would forget them"
    )


def test_what_is_deployed_without_a_mark_is_told_to_have_one(root: str) -> None:
    behind = StoreStatus("auctions", "value", "base", "r1", 5, (), "", wanted="r1")
    assert next_step(behind, "native", root) == (
        f"statemigrate dry-run auctions --checkpoint {root}, then deploy the code for r1, with "
        "its operator declared by stateful (or with_backfill around its stream and migrated on its "
        "processor)"
    )
    assert "stateful" not in next_step(behind, "embedded", root)


def test_nothing_is_left_to_do(root: str) -> None:
    done = StoreStatus("auctions", "value", "r1", "r1", 5, (), "")
    assert next_step(done, "native", root) == "nothing: every value has the target's format"
    empty = StoreStatus(
        "auctions", "value", "r1", "r1", 5, (FamilyStatus("auctions", "base", 0, {}, None),), ""
    )
    assert next_step(empty, "native", root).startswith("restart the query")


def test_broken_scripts_come_first(root: str) -> None:
    broken = StoreStatus("auctions", "value", "r1", None, 5, (OLD,), "", is_broken=True)
    assert next_step(broken, "native", root) == (
        "statemigrate history auctions shows what is wrong with its scripts"
    )


def test_what_only_a_rewrite_migrates_is_rewritten(root: str) -> None:
    behind = StoreStatus(
        "aggregation-0", "value", "base", "r1", 5, (), "", rewrites=True, wanted="r1"
    )
    assert next_step(behind, "native", root) == (
        f"statemigrate dry-run aggregation-0 --checkpoint {root}, then stop the query and "
        f"statemigrate rewrite {root} NEW"
    )
