"""What takes the place of another file in a checkpoint is on disk before it does."""

import os

from statemigrate.native.deployment_check import StoreRecord, read_record, write_record


def test_a_record_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced, renamed = {}, []
    fsync, replace = os.fsync, os.replace

    def seen_synced(descriptor):
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size
        fsync(descriptor)

    def seen_renamed(source, target, **places):
        found = os.stat(source, dir_fd=places["src_dir_fd"])
        renamed.append((target, synced.get(found.st_ino), found.st_size))
        replace(source, target, **places)

    monkeypatch.setattr(os, "fsync", seen_synced)
    monkeypatch.setattr(os, "replace", seen_renamed)
    record = {"counts": StoreRecord(("counts",), 3, {"aaaa": "0" * 64})}
    write_record(str(tmp_path), record)
    ((name, on_disk, size),) = renamed
    assert (name, on_disk) == ("deployed.json", size)
    assert size > 0
    assert read_record(str(tmp_path)) == record
