"""Two operators on pages of one query, taken out of pages, back, and to another name."""

import pytest
from two_paged import Counts, Model, NewCounts, NewTally, Tally, TwoPaged, write_scripts

from statemigrate import backfill, migrated, status
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS = 8


def rows(numbers):
    return [(f"k{number}", 3 * number + 7, f"n{number % 3}") for number in numbers]


class Mixed(TwoPaged):
    """The tally without pages, the counts on them."""

    def paged(self, stream, processor, by, name, pages):
        if by == "name":
            return super().paged(stream, processor, by, name, pages)
        grouped = stream.groupBy(by)
        return grouped.transformWithState(processor, self.output, "Update", self.time_mode)


@pytest.fixture
def rewritten(spark):
    """Rewrites a query's checkpoint, verifies it, and gives the query that goes on with it."""

    def rewrite(query, folder, kind=TwoPaged, **options):
        new = query.root / f"checkpoint-{len(list(query.root.iterdir()))}"
        asked = RewriteOptions(**options)
        rewrite_checkpoint(
            query.checkpoint, new, options=asked, migrations=folder, apply=True, spark=spark
        )
        assert verify(query.checkpoint, new, migrations=folder, spark=spark).problems == ()
        parts = {"names": query.names, "numbers": query.numbers, "apart": query.apart}
        return kind(spark, query.root, checkpoint_directory=new, **parts)

    return rewrite


def test_one_goes_out_of_pages_and_back_while_the_other_stays(spark, scripts, tmp_path, rewritten):
    model, folder = Model(), write_scripts(scripts)
    query = TwoPaged(spark, tmp_path / "two", apart=True)
    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    with pytest.raises(RewriteError) as caught:
        rewrite_checkpoint(query.checkpoint, tmp_path / "new", options=RewriteOptions(pages=0))
    assert caught.value.code == "SM-PAGES-038"
    assert "--paged-operator" in str(caught.value)
    # Neither backfill source has taken a file: which of sources 1 and 3 it is has to be said.
    with pytest.raises(RewriteError, match="is unknown") as caught:
        rewritten(query, folder, pages=0, paged="tallies")
    assert caught.value.data["sources"] == ["1", "3"]
    plain = rewritten(query, folder, Mixed, pages=0, paged="tallies", sources={"1": None})
    plain.feed(model.add(rows([1, 2])))
    plain.deploy_natively((Tally(), migrated(NewCounts(), migrations=folder)))
    assert plain.values("tally", None, 0) == model.old_tallies()
    assert plain.values("counts", folder, "counts") == model.new_counts()
    # The new backfill source comes before the other stream.
    room = {"1": "2", "2": "3"}
    again = rewritten(plain, folder, pages=5, paged=0, paged_name="sums", sources=room)
    again.names, again.numbers = ("sums", "counts"), (5, 3)
    again.feed(model.add(rows([3, 20])))
    again.deploy_natively(
        (migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder))
    )
    assert again.values("tally", folder, "sums") == model.new_tallies(lambda key: key != "k20")
    assert again.values("counts", folder, "counts") == model.new_counts()


def test_a_stream_that_is_read_twice_allows_another_number_of_pages_alone(
    spark, scripts, tmp_path, rewritten
):
    model, folder = Model(), write_scripts(scripts)
    query = TwoPaged(spark, tmp_path / "two")
    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    for change in ({"pages": 0}, {"pages": 4, "paged_name": "sums"}):
        with pytest.raises(UnsupportedError, match="reads one stream in several") as caught:
            rewritten(query, folder, paged="tallies", **change)
        assert caught.value.code == "SM-PAGES-040"
        assert "--pages N gives an operator that has pages another number" in str(caught.value)
    # Each number for itself, and the backfill source of each goes on.
    again = rewritten(query, folder, pages=7, paged="tallies")
    again.numbers = (7, 3)
    again.feed(model.add(rows([3, 20])))
    again.deploy_natively((migrated(NewTally(), migrations=folder), Counts()))
    backfill(again.checkpoint, migrations=folder, keys_per_chunk=1, operator="tallies")
    again.deploy_natively((migrated(NewTally(), migrations=folder), Counts()))
    (store,) = status(again.checkpoint, migrations=folder, operator="tallies").stores
    assert store.left == 0
    assert again.values("tally", folder, "tallies") == model.new_tallies(lambda key: key != "k20")
    assert again.values("counts", None, "counts") == model.old_counts()
