"""What was done to a checkpoint, when, by whom and with which code: a log that is kept in it.

The state itself stays the only truth. The log says what has begun, and at which batch; whether that
came to anything, the commits say.
"""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.event_log.events import (
        OPERATOR,
        STEP,
        STORES,
        Change,
        Event,
        Stamp,
        StoreChange,
        Verb,
    )
    from statemigrate.event_log.log import (
        NOTHING_DONE,
        Facts,
        LaterStarts,
        Note,
        StoreRevision,
        append,
        document_after,
        is_document,
        newest_first,
        planned_revisions,
        read_event,
        require_writable,
    )
else:
    make_face(
        __name__,
        {
            "events": "OPERATOR STEP STORES Change Event Stamp StoreChange Verb",
            "log": (
                "NOTHING_DONE Facts LaterStarts Note StoreRevision append document_after "
                "is_document newest_first planned_revisions read_event require_writable"
            ),
        },
    )
