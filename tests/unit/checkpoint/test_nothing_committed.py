"""A checkpoint without a committed batch is refused in the same words, whoever looks at it."""

from types import SimpleNamespace

import pytest

from statemigrate import fork
from statemigrate.checkpoint.shape import describe
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import Layout
from statemigrate.errors import CheckpointError
from statemigrate.files.open import open_files
from statemigrate.native.checkpoint import SparkCheckpoint

LOOKS = {
    "describe": lambda root: describe(open_files(root)),
    "fork": lambda root: fork(root, root.parent / "new"),
    "spark": lambda root: SparkCheckpoint(
        str(root), SimpleNamespace(streams=None), files=open_files(root)
    ).committed_batch(),
    "embedded": lambda root: require_committed(Layout.of(root)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize(
    ("begun", "found"),
    [(True, "batch 0 begun, and none committed"), (False, "metadata")],
)
def test_every_look_says_that_nothing_is_committed_and_what_is_there(tmp_path, look, begun, found):
    root = tmp_path / "checkpoint"
    root.mkdir()
    (root / "metadata").write_text('{"id":"5c1dc2f7-5a7c-4ac0-bdbd-2a1cbb5cf5b5"}')
    if begun:
        (root / "offsets").mkdir()
        (root / "offsets" / "0").write_text("v1\n{}\n-")
    with pytest.raises(CheckpointError) as refused:
        look(root)
    assert refused.value.summary == f"nothing is committed in the checkpoint {root}"
    assert refused.value.found == found
    assert refused.value.data == {"path": str(root)}
    assert "until its first batch is done" in refused.value.next_action
