"""Wherever a command is ended, no line of Spark starts on what is there before it is whole."""

import shutil

import pytest
import rewritten_code as code
from rewritten_queries import PROVIDER, PROVIDERS, Feed, late_batch, rewritten
from support.new_checkpoints import is_published, is_shut

from statemigrate import fork
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.compat]

CONF = {PROVIDER: PROVIDERS["hdfs"].class_name}
WRITES = ("put", "replace", "create", "delete", "delete_folder")


def watch(monkeypatch, new, folder):
    """Copy what is in ``new`` before and after each thing that is done to its files.

    Returns what copies it, for what is done in another way.
    """

    def copy():
        if new.exists():
            shutil.copytree(new, folder / str(len(list(folder.iterdir()))))

    def watched(method):
        def call(self, *args, **kwargs):
            if self.root != new:
                return method(self, *args, **kwargs)
            copy()
            try:
                return method(self, *args, **kwargs)
            finally:
                copy()

        return call

    folder.mkdir()
    for each in WRITES:
        monkeypatch.setattr(LocalFiles, each, watched(getattr(LocalFiles, each)))
    return copy


@pytest.mark.parametrize("verb", ["fork", "rewrite"])
def test_a_directory_is_a_checkpoint_to_it_at_the_end_only(
    spark, other, line, tmp_path, monkeypatch, verb
):
    feed, old, new = Feed(tmp_path / "input"), tmp_path / "old", tmp_path / "new"
    for number in (1, 2, 3):
        feed.add(late_batch(number))

    def start(checkpoint):
        return other.run([feed], "rewritten_code:totals", checkpoint, "update", CONF)

    start(old)
    with monkeypatch.context() as patched:
        copy = watch(patched, new, tmp_path / "seen")
        if verb == "fork":
            fork(old, new, progress=lambda done, total: copy())
        else:
            rewritten(spark, old, new, code.totals, partitions=3)
    feed.add(late_batch(4))
    shutil.copytree(old, tmp_path / "twin")
    expected = start(tmp_path / "twin")
    seen = sorted((tmp_path / "seen").iterdir(), key=lambda each: int(each.name))
    published = [each for each in seen if is_published(each)]
    unfinished = [each for each in seen if not is_published(each)]
    assert all(map(is_shut, unfinished))
    refused = [each for each in unfinished if (each / "metadata").exists()]
    assert any((each / "offsets" / "2").exists() for each in refused)
    assert len(refused) > 8
    for each in refused:
        with pytest.raises(AssertionError, match="unfinished_checkpoint_of_statemigrate"):
            start(each)
        assert not is_published(each)
    assert published
    assert start(published[0]) == expected
