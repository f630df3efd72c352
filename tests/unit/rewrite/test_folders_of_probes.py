"""The folder of a probe, in which a query of Spark's may still write when it has ended."""

import threading
from contextlib import suppress

from statemigrate.rewrite.probe import probe_folder


def test_what_is_written_while_the_folder_is_removed_is_no_error():
    ended = threading.Event()

    def write(folder):
        number = 0
        while not ended.is_set():
            number += 1
            with suppress(FileNotFoundError):
                (folder / "state" / f"{number}.zip").write_bytes(b"late")

    for _ in range(20):
        ended.clear()
        try:
            with probe_folder() as folder:
                (folder / "state").mkdir()
                for each in range(200):
                    (folder / "state" / f"{each}.sst").write_bytes(b"")
                maintenance = threading.Thread(target=write, args=(folder,))
                maintenance.start()
        finally:
            ended.set()
            maintenance.join()
    with probe_folder() as folder:
        (folder / "one").write_text("file")
    assert not folder.exists()
