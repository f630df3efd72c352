"""Between a query and what records it: a failure to record is told, and never ends the query."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger("statemigrate.metrics")


class Recording:
    """Runs what records the events of one query.

    What an exporter or an instrument raises is logged, with its traceback, the first time. Once
    recording works again, the number of events that were not recorded is logged.
    """

    def __init__(self, query: str) -> None:
        self._query = query
        self._missed = 0

    def run(self, record: Callable[[], None], concerns: Callable[[], bool] = lambda: True) -> None:
        """Call ``record`` if the event ``concerns`` it; raises nothing that is an `Exception`."""
        try:
            # What is passed over does not show that an exporter works again.
            if not concerns():
                return
            record()
        except Exception:
            self._missed += 1
            if self._missed == 1:
                _log.exception(
                    "metrics of query %s cannot be recorded; the query goes on, and this is not "
                    "logged again until they can",
                    self._query,
                )
            return
        if self._missed:
            _log.warning(
                "metrics of query %s are recorded again; %d events were not, or not wholly",
                self._query,
                self._missed,
            )
            self._missed = 0
