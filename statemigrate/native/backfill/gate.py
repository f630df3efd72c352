"""The stream with the control source: control rows reach a migrated processor, and nobody else.

To code without `migrated` a control row is a row of its key with nothing in it. So the stream that
`with_backfill` returns has the rows only where it is grouped for code that knows them. Code that
does not gets the user's own columns and rows; the source stays in the query, as Spark demands. Any
other way that a control row takes out of here ends the query with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from statemigrate.native.live.control import MARKER
from statemigrate.native.live.deployed import DEPLOYED
from statemigrate.native.live.functions import MigratedFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LET_THROUGH = (
    "a control row of statemigrate left the stream of with_backfill by another way than groupBy "
    "and transformWithState, transformWithStateInPandas or applyInPandasWithState. Call "
    "with_backfill last, right before groupBy; then start the query again"
)


def gated(
    stream: DataFrame,
    control: DataFrame,
    check: Callable[[Any], None],
    welcome: Callable[[Any], None],
) -> DataFrame:
    """The union of both, ``stream`` first.

    ``check`` is given the processor or function where it is no migrated one, and may refuse it;
    ``welcome`` is given a migrated one.
    """
    from pyspark.sql import functions

    refused = control.where(functions.raise_error(_LET_THROUGH).isNull())
    return _Gate(stream.union(control), check, welcome).on(stream.union(refused))


def is_migrated(code: Any) -> bool:
    """Whether a processor or function tells control rows from the user's own."""
    return isinstance(code, MigratedFunction) or DEPLOYED in getattr(code, "__dict__", {})


class _Gate:
    """The open stream, behind one that lets no control row pass."""

    def __init__(
        self, stream: DataFrame, check: Callable[[Any], None], welcome: Callable[[Any], None]
    ) -> None:
        self.stream = stream
        self.check = check
        self.welcome = welcome

    def on(self, closed: DataFrame) -> DataFrame:
        """``closed``, which opens where it is grouped for code that knows control rows."""
        # A class of this one object's own; nobody else's DataFrames change.
        base: Any = type(closed)
        kind = type(base.__name__, (_GatedStream, base), {"_statemigrate_gate": self})
        closed.__class__ = kind
        return closed

    def then(self, change: Callable[[DataFrame], DataFrame]) -> _Gate:
        """The same gate on a changed stream."""
        return _Gate(change(self.stream), self.check, self.welcome)

    def harmless(self) -> DataFrame:
        """The user's own columns and rows."""
        return self.stream.where(f"{MARKER} IS NULL").drop(MARKER)

    def stream_for(self, code: Any) -> DataFrame:
        """What ``code`` gets to see."""
        if is_migrated(code):
            self.welcome(code)
            return self.stream
        self.check(code)
        return self.harmless()


class _GatedStream:
    """A ``DataFrame`` behind a gate."""

    _statemigrate_gate: _Gate

    def groupBy(self, *columns: Any) -> Any:
        """See ``DataFrame.groupBy``."""
        grouped = super().groupBy(*columns)  # type: ignore[misc]
        base: Any = type(grouped)
        grouped.__class__ = type(base.__name__, (_GatedGroups, base), {})
        grouped._statemigrate_gate, grouped._statemigrate_columns = self._statemigrate_gate, columns
        return grouped

    groupby = groupBy

    def withWatermark(self, eventTime: str, delayThreshold: str) -> Any:
        """See ``DataFrame.withWatermark``."""
        closed = super().withWatermark(eventTime, delayThreshold)  # type: ignore[misc]
        gate = self._statemigrate_gate
        return gate.then(lambda stream: stream.withWatermark(eventTime, delayThreshold)).on(closed)


class _GatedGroups:
    """``GroupedData`` behind a gate."""

    _statemigrate_gate: _Gate
    _statemigrate_columns: tuple[Any, ...]

    def transformWithState(self, statefulProcessor: Any, *rest: Any, **named: Any) -> Any:
        """See ``GroupedData.transformWithState``."""
        grouped = self._grouped_for(statefulProcessor)
        return grouped.transformWithState(statefulProcessor, *rest, **named)

    def transformWithStateInPandas(self, statefulProcessor: Any, *rest: Any, **named: Any) -> Any:
        """See ``GroupedData.transformWithStateInPandas``."""
        grouped = self._grouped_for(statefulProcessor)
        return grouped.transformWithStateInPandas(statefulProcessor, *rest, **named)

    def applyInPandasWithState(self, func: Any, *rest: Any, **named: Any) -> Any:
        """See ``GroupedData.applyInPandasWithState``."""
        return self._grouped_for(func).applyInPandasWithState(func, *rest, **named)

    def _grouped_for(self, code: Any) -> Any:
        stream = self._statemigrate_gate.stream_for(code)
        return stream.groupBy(*self._statemigrate_columns)
