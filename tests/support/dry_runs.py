"""Reports of dry runs: an ordinary one, one full of nasty texts, a huge one, and empty ones."""

from __future__ import annotations

from dataclasses import replace

from statemigrate.inspect.dry_run_report import (
    BackfillEstimate,
    BrokenLaw,
    ConstantField,
    DryRunReport,
    Failure,
    FamilyTrial,
    FieldEffect,
    Loss,
    RoundTripDifference,
    ScriptNote,
    ValueExample,
)

AUCTIONS = FamilyTrial(
    family="auctions",
    revision="base",
    stored=1_250_000,
    tried=1_000_000,
    failed=3,
    failures=(
        Failure(
            "ValueError: price 'n/a' is no decimal", 2, ('["auction-17"]', '["auction-90210"]')
        ),
        Failure("KeyError: 'currency'", 1, ('["auction-4711"]',)),
    ),
    reversible=True,
    differing=12,
    differences=(
        RoundTripDifference("price", 12, (ValueExample('["auction-8"]', "12.345", "12.34"),)),
        RoundTripDifference("note", 2, ()),
    ),
    looked_at=10_000,
    fields=(
        FieldEffect("item.name", "added", 10_000, (ValueExample('["auction-1"]', None, '"Lamp"'),)),
        FieldEffect("name", "removed", 10_000, (ValueExample('["auction-1"]', '"Lamp"', None),)),
        FieldEffect(
            "closes", "renamed", 10_000, (ValueExample('["auction-1"]', "17", "17"),), "item.ends"
        ),
        FieldEffect(
            "price",
            "changed",
            9_990,
            (
                ValueExample('["auction-1"]', "10.5", '"10.50"'),
                ValueExample('["auction-2"]', "7.25", '"7.25"'),
            ),
        ),
        FieldEffect("price", "kept", 10, ()),
        FieldEffect("seller", "kept", 10_000, ()),
    ),
    bytes_before=61_000_000,
    bytes_after=66_500_000,
    sizes_before={32: 120_000, 64: 700_000, 128: 179_997},
    sizes_after={64: 640_000, 128: 359_990, 512: 7},
    examples=(
        ValueExample(
            '["auction-1"]',
            '{\n  "name": "Lamp",\n  "price": 10.5,\n  "closes": 17,\n  "seller": "Ann"\n}',
            '{\n  "item": {\n    "name": "Lamp",\n    "ends": 17\n  },\n  "price": "10.50",\n'
            '  "seller": "Ann"\n}',
        ),
    ),
)
LATER = FamilyTrial(
    family="auctions_04cb3bbb72d2",
    revision="04cb3bbb72d2",
    stored=420,
    tried=420,
    failed=0,
    failures=(),
    reversible=False,
    differing=0,
    differences=(),
    looked_at=420,
    fields=(FieldEffect("price", "kept", 420, ()),),
    bytes_before=27_000,
    bytes_after=27_000,
    sizes_before={64: 300, 128: 120},
    sizes_after={64: 300, 128: 120},
)
REPORT = DryRunReport(
    store="auctions",
    kind="value",
    engine="embedded",
    checkpoint="/data/checkpoints/auctions",
    batch=48_211,
    target="9f2d6c1b7e05",
    sample=1_000_000,
    in_target=5_112,
    families=(LATER, AUCTIONS),
    seconds=41.7,
    backfill=BackfillEstimate(1_250_420, 1_530.0, 1_251, "1,000 values a batch, a batch in 1.2 s"),
    scripts=(
        ScriptNote("04cb3bbb72d2", "upgrade", "item and closing time in one record"),
        ScriptNote("9f2d6c1b7e05", "upgrade", "money as decimals"),
    ),
    made_at=1_700_000_000.0,
    version="0.1.0",
)

TAG = "</script><img src=x onerror=alert(1)>"
QUOTES = "\" onload='alert(1)' & <b>&amp;"
CONTROL = "bell\x07 escape\x1b[31m null\x00 next\x85 line\nnext\ttab \udc80 \ufffe"
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u202eevil\u202c"
MAKO = "${1/0} <%page/> ## % for"
LONG_KEY = "k" * 20_000
NASTY_TEXTS = (TAG, QUOTES, CONTROL, RIGHT_TO_LEFT, MAKO, LONG_KEY)
NASTY_FAMILY = replace(
    AUCTIONS,
    family=f"family {TAG}",
    revision=f"revision {QUOTES}",
    failures=(
        Failure(f"cause {TAG}\nsecond line {CONTROL}", 2, NASTY_TEXTS),
        Failure(f"cause {RIGHT_TO_LEFT} {MAKO}", 1, (LONG_KEY[:9_999],)),
    ),
    differences=(
        RoundTripDifference(
            f"difference {TAG}", 12, tuple(ValueExample(t, t, t) for t in NASTY_TEXTS)
        ),
    ),
    fields=(
        FieldEffect(
            f"field {TAG}", "changed", 7_777, tuple(ValueExample(t, t, None) for t in NASTY_TEXTS)
        ),
        FieldEffect(LONG_KEY[:300], "added", 3, (ValueExample(RIGHT_TO_LEFT, None, CONTROL),)),
    ),
    losses=(Loss(f"loss {TAG}", "upgrade", "a1", f"{QUOTES}.py", False, CONTROL),),
    lawless=3,
    broken_laws=(
        BrokenLaw(
            "upgrade(downgrade(value)) == value",
            f"law {TAG}",
            QUOTES,
            f"field {MAKO}",
            None,
            3,
            tuple(ValueExample(t, t, t) for t in NASTY_TEXTS),
            None,
        ),
        BrokenLaw("law", "a1", "", None, f"cause {TAG}{CONTROL}", 1, (), None),
    ),
    constants=(ConstantField(f"constant {TAG}", "upgrade", "a1", MAKO, False, CONTROL),),
    examples=tuple(ValueExample(t, f"{t}\n  {t}", t) for t in NASTY_TEXTS),
)
NASTY = replace(
    REPORT,
    store=f"store {TAG}",
    checkpoint=f"/data/{QUOTES}{CONTROL}",
    target=f"target {RIGHT_TO_LEFT}",
    families=(NASTY_FAMILY,),
    backfill=BackfillEstimate(1, 2.0, 3, f"basis {TAG} {MAKO}"),
    scripts=(ScriptNote(f"script {TAG}", "downgrade", f"message {QUOTES} {CONTROL} {MAKO}"),),
)

GOOD_FAMILY = replace(
    AUCTIONS,
    stored=1_000_000,
    failed=0,
    failures=(),
    differing=0,
    differences=(),
    sizes_before={32: 120_000, 64: 700_000, 128: 180_000},
    sizes_after={64: 640_000, 128: 359_993, 512: 7},
)
GOOD = replace(REPORT, sample=None, families=(GOOD_FAMILY,))
LOSING_FAMILY = replace(
    GOOD_FAMILY,
    losses=(
        Loss("note", "upgrade", "a1", "m/versions/a1.py", False, '"blue"'),
        Loss("item.colour", "upgrade", "a1", "m/versions/a1.py", False, ""),
        Loss("seller", "upgrade", "a1", "m/versions/a1.py", True, '"Ann"'),
    ),
    constants=(ConstantField("total", "upgrade", "a1", "m/versions/a1.py", False, "0"),),
)
LOSING = replace(GOOD, families=(LOSING_FAMILY,))
CONSTANT = replace(GOOD, families=(replace(LOSING_FAMILY, losses=LOSING_FAMILY.losses[2:]),))
EMPTY = replace(REPORT, families=(), sample=None, seconds=0.25, backfill=None)
NOT_SAMPLED = replace(
    LATER,
    reversible=True,
    tried=0,
    looked_at=0,
    fields=(),
    bytes_before=0,
    bytes_after=0,
    sizes_before={},
    sizes_after={},
)


def huge(families: int = 20, fields: int = 200) -> DryRunReport:
    """A report of many families with many fields, causes and sizes, and numbers of 13 digits."""
    return replace(REPORT, families=tuple(_huge_family(n, fields) for n in range(families)))


def _huge_family(number: int, fields: int) -> FamilyTrial:
    trillion = 10**12 + number
    causes = tuple(Failure(f"cause {number}-{n}", 10**9 + n, (f"key {n}",) * 5) for n in range(50))
    return replace(
        AUCTIONS,
        family=f"family_{number}",
        revision=f"{number:012x}",
        stored=3 * trillion,
        tried=2 * trillion,
        failed=sum(cause.values for cause in causes),
        failures=causes,
        looked_at=trillion,
        fields=tuple(
            FieldEffect(
                f"field_{number}_{n}", "changed", trillion - n, (ValueExample("k", "1", "2"),)
            )
            for n in range(fields)
        ),
        bytes_before=10**15,
        bytes_after=2 * 10**15,
        sizes_before={2**n: trillion // (n + 1) for n in range(31)},
        sizes_after={2**n: trillion // (31 - n) for n in range(31)},
    )
