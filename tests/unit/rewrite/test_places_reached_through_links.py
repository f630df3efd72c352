"""A new checkpoint and the old one, each named in any way: they lie apart, or it is refused.

What is compared with is the file system: a mark is put into one of both, and looked for from the
other.
"""

import os
import random
from pathlib import Path

import pytest
from support.spark_checkpoints import aggregation

from statemigrate import fork
from statemigrate.checkpoint.shape import describe
from statemigrate.errors import RewriteError, StorageError
from statemigrate.files import LocalFiles
from statemigrate.files.open import open_files
from statemigrate.files.protocol import local_path
from statemigrate.rewrite.claims import check_separate
from statemigrate.rewrite.origin import Target

SEEDS = range(200)
MARK = "mark-of-this-place"


def holds(outer: Path, inner: Path) -> bool:
    """Whether ``inner`` is ``outer`` or lies in it: it finds there what was put into it."""
    inner.mkdir(parents=True, exist_ok=True)
    (inner / MARK).touch()
    found = any(MARK in names for _, _, names in os.walk(outer))
    (inner / MARK).unlink()
    return found


class Tree:
    """A few directories, with links between them at random."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = root
        self.folders = [root / "a", root / "a/b", root / "a/b/c", root / "d", root / "d/e"]
        for each in self.folders:
            each.mkdir(parents=True)
        self.links: list[Path] = []
        for number in range(4):
            link = self.random.choice(self.folders) / f"l{number}"
            target = self.random.choice([*self.folders, *self.links, root / "nothing"])
            is_relative = self.random.random() < 0.5
            link.symlink_to(os.path.relpath(target, link.parent) if is_relative else target)
            self.links.append(link)

    def place(self) -> str:
        """A place in the tree, there or not, by any of its names."""
        path = str(self.random.choice([*self.folders, *self.links]))
        for _ in range(self.random.randrange(3)):
            path += self.random.choice(["/b", "/c", "/..", "/l1", "/l2", "/.", "/new", "//e"])
        form = self.random.randrange(4)
        if form == 1:
            return f"file:{path}"
        if form == 2:
            return f"file://{path}"
        return os.path.relpath(path, Path.cwd()) if form == 3 else path


def apart(old: str, new: str) -> bool | None:
    """What the product says; None where a link points to nothing."""
    try:
        check_separate(open_files(old), open_files(new))
    except StorageError:
        return None
    except RewriteError:
        return False
    return True


def truly_apart(old: Path, new: Path) -> bool | None:
    try:
        return not (holds(old, new) or holds(new, old))
    except FileExistsError:
        return None


def test_links_are_seen_through_wherever_they_are(tmp_path: Path) -> None:
    tried = set()
    for seed in SEEDS:
        made = Tree(tmp_path / str(seed), seed)
        old, new = made.place(), made.place()
        paths = local_path(old), local_path(new)
        assert None not in paths
        found, expected = apart(old, new), truly_apart(*paths)  # type: ignore[arg-type]
        assert found == expected, (seed, old, new)
        tried.add((paths[1].is_relative_to(paths[0]), expected))  # type: ignore[union-attr, arg-type]
    # Also such as only a look at the links can tell.
    assert tried >= {(False, True), (False, False), (True, False), (False, None)}


@pytest.mark.parametrize("which", ["new", "old", "both"])
def test_a_target_below_the_old_checkpoint_is_refused_however_it_is_reached(
    tmp_path: Path, which: str
) -> None:
    old = aggregation(tmp_path / "real/old")
    (tmp_path / "link").symlink_to(old)
    before = sorted(old.rglob("*"))
    given = tmp_path / "link" if which in ("old", "both") else old
    target = (tmp_path / "link" if which in ("new", "both") else old) / "state/inner"
    with pytest.raises(RewriteError) as caught:
        fork(given, target)
    assert caught.value.data["path"] == str(target)
    origins = (("the old checkpoint", LocalFiles(given)),)
    with pytest.raises(RewriteError):
        Target(LocalFiles(target), "plan", str(given), origins).check()
    assert sorted(old.rglob("*")) == before


@pytest.mark.parametrize("name", ["old", "link", "link/../old", "old/state/../../old", "."])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_the_old_checkpoint_itself_and_what_it_is_in_are_refused(
    tmp_path: Path, name: str, scheme: str
) -> None:
    old = aggregation(tmp_path / "old")
    (tmp_path / "link").symlink_to(old)
    with pytest.raises(RewriteError, match="old checkpoint"):
        fork(old, f"{scheme}{tmp_path}/{name}")


@pytest.mark.parametrize("below", ["", "/inner"])
@pytest.mark.parametrize("target", ["nothing", "other", "dangling"])
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, target: str, below: str) -> None:
    old, link = aggregation(tmp_path / "old"), tmp_path / "dangling"
    (tmp_path / "other").symlink_to("nothing")
    link.symlink_to(target)
    for command in (
        lambda: fork(old, f"{link}{below}"),
        lambda: fork(f"{link}{below}", tmp_path / "new"),
        lambda: LocalFiles(Path(f"{link}{below}")).put("a", b"x"),
    ):
        with pytest.raises(StorageError) as caught:
            command()
        assert caught.value.data["path"] == str(link)


def test_a_link_to_a_directory_elsewhere_is_gone_through(tmp_path: Path) -> None:
    old = aggregation(tmp_path / "old")
    (tmp_path / "disk").mkdir()
    (tmp_path / "new").symlink_to("disk")
    fork(old, tmp_path / "new")
    assert describe(LocalFiles(tmp_path / "disk")).batch == 3


def test_two_dots_behind_a_link_go_where_spark_goes(tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    place = f"{tmp_path}/link/../new"
    # As a path of Hadoop: the system itself would go to far/new.
    assert open_files(place).location == open_files(f"file:{place}").location
    assert open_files(place).location == str(tmp_path / "new")
