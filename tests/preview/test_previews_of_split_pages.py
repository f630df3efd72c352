"""Previews of queries whose pages are in leaves, on pages as they are and on other ones."""

import pytest
import split_pages_code as code
from previewed_query import Query, fields, scripts_of, write_means

from statemigrate import open_state
from statemigrate.errors import StartupError, UnsupportedError

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    return scripts_of(code, tmp_path, monkeypatch)


@pytest.fixture
def query(spark, tmp_path, scripts):
    return Query(spark, tmp_path, code.split, "update", batches=3)


def test_new_code_is_previewed_on_leaves_and_from_a_bundle_of_them(query, scripts, tmp_path):
    state = open_state(query.checkpoint, migrations=None)
    rows = {name: state[name].to_arrow().num_rows for name in state.stores}
    assert rows == {"letters": 180, "total": 7, "values": 180}
    query.save(tmp_path / "bundle", batches=2)
    for place in (None, tmp_path / "bundle"):
        same = query.preview(code.split, batches=2, migrations=scripts, place=place)
        assert (same.path, same.noise, same.unexpected) == ("as it is", (), ())
        compared = {each.store: each.rows for each in same.batches[-1].stores}
        assert compared == rows
    wrong = query.preview(code.split_wrongly, migrations=scripts, place=tmp_path / "bundle")
    assert fields(wrong) == {("letters", "v")}


@pytest.mark.parametrize("function", [code.in_three_pages, code.in_variables])
def test_code_with_other_pages_is_previewed_on_state_that_is_rewritten_for_it(
    query, scripts, function
):
    found = query.preview(function, batches=2, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("rewritten", (), ())
    assert {each.store: each.rows for each in found.square} == {
        "letters": 180,
        "total": 7,
        "values": 180,
    }
    assert all(each.is_same for each in found.square)


def test_state_that_comes_into_pages_needs_their_number(spark, tmp_path, scripts):
    query = Query(spark, tmp_path, code.in_variables, "update", batches=3)
    found = query.preview(code.in_three_pages, batches=2, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("rewritten", (), ())
    with pytest.raises(StartupError) as raised:
        query.preview(code.in_pages, batches=2, migrations=scripts)
    assert raised.value.code == "SM-PAGES-034"


def test_code_that_takes_other_code_first_is_refused_before_anything_runs(query, scripts):
    with pytest.raises(UnsupportedError) as raised:
        query.preview(code.expiring, batches=2, migrations=scripts)
    assert raised.value.code == "SM-PREVIEW-038"


def test_a_live_migration_of_leaves_is_previewed_with_other_pages_too(query, scripts):
    write_means(scripts)
    found = query.preview(code.means, batches=2, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("live", (), ())
    assert all(each.is_same for each in found.square)
    found = query.preview(code.means_in_three_pages, batches=2, migrations=scripts)
    assert (found.path, found.noise, found.unexpected) == ("rewritten", (), ())
    assert all(each.is_same for each in found.square)
