"""Where bytes live: one protocol for the files of a checkpoint, and documents with bounds."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.files.cached import Remembered
    from statemigrate.files.confined import ConfinedPath, check_reachable, is_below, is_same
    from statemigrate.files.documents import (
        OBJECT,
        RESTORE_COPY,
        VERSION,
        Maybe,
        OneOf,
        Table,
        check_shape,
        document_checksum,
        parse_json,
        replacing,
        sealed,
        understood,
        unsealed,
        whole_number,
    )
    from statemigrate.files.hadoop import HadoopFiles
    from statemigrate.files.hadoop_failures import (
        JAVA_ERRORS,
        CutOffError,
        chain,
        failure_of_store,
        thrown_by,
    )
    from statemigrate.files.hadoop_jvm import find_java, has_jvm, require_java, started_by
    from statemigrate.files.local import LocalFiles, copy_local
    from statemigrate.files.open import PathOrFiles, files_to_read, open_files
    from statemigrate.files.protocol import (
        ALLOW_RACES,
        FileEntry,
        Files,
        done_at_once,
        local_path,
        races_allowed,
    )
    from statemigrate.files.served import ServedFiles, served, socket_parent
else:
    make_face(
        __name__,
        {
            "cached": "Remembered",
            "confined": "ConfinedPath check_reachable is_below is_same",
            "documents": (
                "OBJECT RESTORE_COPY VERSION Maybe OneOf Table check_shape document_checksum "
                "parse_json replacing sealed understood unsealed whole_number"
            ),
            "hadoop": "HadoopFiles",
            "hadoop_failures": "JAVA_ERRORS CutOffError chain failure_of_store thrown_by",
            "hadoop_jvm": "find_java has_jvm require_java started_by",
            "local": "LocalFiles copy_local",
            "open": "PathOrFiles files_to_read open_files",
            "protocol": "ALLOW_RACES FileEntry Files done_at_once local_path races_allowed",
            "served": "ServedFiles served socket_parent",
        },
    )
