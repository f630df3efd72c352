"""What ended attempts have left is removed, and nothing else."""

from support.offset_logs import tree
from support.spark_checkpoints import put, variables

from statemigrate.files import LocalFiles
from statemigrate.rewrite.run import remove_unreferenced_files


def test_tables_of_no_snapshot_and_unfinished_files_go_and_all_others_stay(tmp_path):
    root = variables(tmp_path / "new")
    whole = tree(root)
    put(root, "state/0/1/SSTs/000001-of-another-attempt.sst", b"left")
    put(root, "offsets/.3.0123.tmp", b"left")
    remove_unreferenced_files(LocalFiles(root))
    assert tree(root) == whole


def test_a_table_is_kept_for_its_own_partition_alone(tmp_path):
    root = variables(tmp_path / "new")
    whole = tree(root)
    put(root, "state/0/1/SSTs/000000-x.sst", b"of partition 0, and not of 1")
    remove_unreferenced_files(LocalFiles(root))
    assert tree(root) == whole
