"""An error of a task told at the driver: Spark hands over no more than a text of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from statemigrate.errors import StatemigrateError

_TOLD = re.compile(r"statemigrate-error-([A-Za-z0-9+/=]+)-end")
Batches = Callable[[Iterable[Any]], Iterator[Any]]


class ToldError(RuntimeError):
    """Carries an error of this package through Spark."""


class Telling:
    """A function for ``mapInArrow`` whose errors `told` raises again at the driver."""

    def __init__(self, function: Batches) -> None:
        self._function = function

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What the function makes of batches."""
        try:
            yield from self._function(batches)
        except StatemigrateError as error:
            document = json.dumps(error.to_json()).encode()
            raise ToldError(
                f"[{error.code}] statemigrate-error-{base64.b64encode(document).decode()}-end"
            ) from error


@contextmanager
def told() -> Iterator[None]:
    """Raise the error that a task has told of in place of Spark's."""
    try:
        yield
    except StatemigrateError:
        raise
    except Exception as error:
        found = _TOLD.search(str(error))
        if found is None:
            raise
        raise StatemigrateError.from_json(json.loads(base64.b64decode(found[1]))) from error
