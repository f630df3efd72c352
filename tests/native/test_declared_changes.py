"""A change that lenses declare, on every engine: forward, tried, back, and in a rewrite."""

from decimal import Decimal

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages
from pipelines import Pipeline, no_backfill
from tally import AMOUNTS, CENTS_DDL, AmountsTally, CentsTally, Scripts, batch

from statemigrate import dry_run, get, migrated, status

pytestmark = pytest.mark.spark
DECLARED = f"""
from statemigrate.formats import Struct
from statemigrate.lenses import lens, rename, scale

revision = "{AMOUNTS}"
down_revision = None
branch_labels = ("tally",)
store = "tally"
old = Struct("{CENTS_DDL}")
change = lens(
    scale("cents", places=2, type="DECIMAL(18,2)", unfit="fail"),
    rename("cents", "amount"),
)
"""
KEYS, TOUCHED = 20, 5


@pytest.fixture(params=["native", pytest.param("paged", marks=pytest.mark.long), "embedded"])
def deployed(request, spark, tmp_path):
    """A query of which a quarter of the keys was touched since its change; what deploys on it."""
    folder = Scripts(tmp_path / "migrations").write(DECLARED)
    made = {"native": NativePipeline, "paged": TallyPages, "embedded": Pipeline}
    pipeline = made[request.param](spark, tmp_path / "pipeline")

    def deploy(processor, **migrating):
        if migrating:
            checkpoint = {"checkpoint": pipeline.checkpoint} if request.param == "native" else {}
            processor = migrated(processor, migrations=folder, **checkpoint, **migrating)
        if request.param == "embedded":
            pipeline.deploy(processor, backfill=no_backfill())
        else:
            pipeline.deploy_natively(processor)

    pipeline.feed(batch("first", range(KEYS)))
    deploy(CentsTally())
    pipeline.feed(batch("second", range(TOUCHED)))
    deploy(AmountsTally(), targets={"tally": "head"})
    return pipeline, folder, deploy


def cents_of(number, times):
    return (3 * number + 7) * times


def expected(times):
    """By key, what all batches together have added up."""
    return {
        f"k{number}": {
            "n": count,
            "amount": Decimal(cents_of(number, count)).scaleb(-2),
            "last": name,
            "moved": 0,
        }
        for number in range(KEYS)
        for count, name in [times(number)]
    }


def amounts(checkpoint, folder):
    return {
        f"k{number}": get("tally", checkpoint, f"k{number}", migrations=folder)
        for number in range(KEYS)
    }


@pytest.mark.long(weight=1 / 3)
def test_every_value_is_in_the_new_format_and_goes_back(deployed):
    pipeline, folder, deploy = deployed
    checkpoint = pipeline.checkpoint
    wanted = expected(lambda number: (2, "second") if number < TOUCHED else (1, "first"))
    assert amounts(checkpoint, folder) == wanted
    (store,) = status(checkpoint, migrations=folder).stores
    assert store.target == AMOUNTS
    tried = dry_run("tally", checkpoint, migrations=folder)
    assert tried.failed == 0
    assert tried.tried

    pipeline.feed(batch("third", range(KEYS - TOUCHED, KEYS)))
    deploy(CentsTally(), targets={"tally": "base"})
    back = get("tally", checkpoint, "k19", migrations=folder, targets={"tally": "base"})
    assert back == {"n": 2, "cents": cents_of(19, 2), "last": "third", "moved": 0}
    old = get("tally", checkpoint, "k0", migrations=folder, targets={"tally": "base"})
    assert old == {"n": 2, "cents": cents_of(0, 2), "last": "second", "moved": 0}
