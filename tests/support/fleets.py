"""Statuses to be shown, plain and hostile."""

from __future__ import annotations

from statemigrate import Behind, CheckpointError, FamilyStatus, Fleet, Look, Status, StoreStatus
from statemigrate.configuration import NamedCheckpoint

from .dry_runs import CONTROL, LONG_KEY, MAKO, QUOTES, RIGHT_TO_LEFT, TAG

NOW = 1_700_000_000.0

AUCTIONS = Status(
    "native",
    "s3a://bucket/checkpoints/auctions",
    214,
    NOW,
    (
        StoreStatus(
            "auctions",
            "value",
            "04cb3bbb72d2",
            "04cb3bbb72d2",
            187_996,
            (FamilyStatus("auctions", "base", 812_004, {0: 406_000, 1: 406_004}, None),),
            "run the query: 82 chunks of its backfill wait to be taken",
            1204.0,
            674.0,
        ),
    ),
    None,
    NOW - 12,
    60.0,
)
TAGS = StoreStatus(
    "tags",
    "list",
    "base",
    "a1b2c3d4e5f6",
    None,
    (FamilyStatus("tags", "base", 77, {0: 77}, 12),),
    "statemigrate dry-run tags --checkpoint /data/sessions shows why 12 fail",
    0.0,
)
DONE = StoreStatus("sessions", "map", "77aa00bb11cc", "77aa00bb11cc", 0, (), "nothing")
SESSIONS = Status("embedded", "/data/sessions", 9310, NOW, (DONE, TAGS), None, NOW - 2 * 86_400)
GONE = CheckpointError(
    "SM-CHECKPOINT-003",
    "nowhere is not the checkpoint of a stateful query",
    expected="a checkpoint directory of Spark's",
    found="no such directory",
    next_action="name the directory that the query has as its checkpointLocation",
)


def named(name: str, status: Status) -> Look:
    return Look(NamedCheckpoint(name, status.checkpoint), status)


FLEET = Fleet(
    (
        named("auctions", AUCTIONS),
        named("sessions", SESSIONS),
        Look(NamedCheckpoint("gone", "nowhere"), None, GONE),
    )
)
FINISHED = Status("embedded", "/data/sessions", 3, NOW, (DONE,), None, NOW)
BEHIND = Status(
    "native",
    "/data/bids",
    77,
    NOW,
    (
        StoreStatus(
            "bids",
            "value",
            "base",
            "77aa00bb11cc",
            1_000,
            (),
            "statemigrate dry-run bids --checkpoint /data/bids, then deploy the code for it",
            behind=Behind("77aa00bb11cc", "base", ("0a0b0c0d0e0f", "77aa00bb11cc"), 1_000),
            wanted="77aa00bb11cc",
        ),
    ),
    None,
    NOW - 3,
)
FORTY = Fleet(
    (
        *(named(f"done-{number}", FINISHED) for number in range(30)),
        *(named(f"bids-{number}", BEHIND) for number in range(4)),
        *(named(f"auctions-{number}", AUCTIONS) for number in range(4)),
        named("sessions", SESSIONS),
        Look(NamedCheckpoint("gone", "nowhere"), None, GONE),
    )
)
NASTY_STORE = StoreStatus(
    f"store {TAG}",
    "value",
    f"target {QUOTES}",
    f"head {MAKO}",
    3,
    (FamilyStatus(f"family {TAG}{LONG_KEY}", RIGHT_TO_LEFT, 10**13, {0: 10**13}, 10**12),),
    f"next {TAG} {CONTROL} {MAKO}",
    1e9,
    1e12,
    behind=Behind(f"head {TAG}", f"target {QUOTES}", (MAKO, f"head {TAG}"), None),
    wanted=f"head {TAG}",
)
NASTY_FLEET = Fleet(
    (
        named(
            f"name {TAG}",
            Status("embedded", f"/data/{QUOTES}{LONG_KEY}", 10**12, NOW, (NASTY_STORE,)),
        ),
        Look(
            NamedCheckpoint(LONG_KEY[:300], RIGHT_TO_LEFT),
            None,
            CheckpointError(
                "SM-CHECKPOINT-003",
                f"error {TAG} {CONTROL}",
                expected=QUOTES,
                found=LONG_KEY,
                next_action=MAKO,
            ),
        ),
    )
)
