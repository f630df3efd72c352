"""``python -m systems fetch``, or ``python -m systems NAME...``: start them until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from systems.hdfs import Hdfs
from systems.kafka import Kafka
from systems.packages import Missing, fetch
from systems.postgres import Postgres
from systems.s3 import S3
from systems.s3_proxy import FaultyS3

_say = partial(print, flush=True)
_SYSTEMS = {
    "hdfs": Hdfs,
    "kafka": Kafka,
    "postgres": Postgres,
    "s3": S3,
    "failing_s3": FaultyS3,
}


def main(names: list[str]) -> None:
    if names == ["fetch"]:
        fetch(_say)
        return
    if not names or set(names) - set(_SYSTEMS):
        sys.exit(f"usage: python -m systems fetch | {' | '.join(_SYSTEMS)} ...")
    for sent in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sent, signal.default_int_handler)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="systems-")))
        for name in names:
            system = _SYSTEMS[name](folder)
            stack.callback(system.stop)
            _show(system)
        with suppress(KeyboardInterrupt):
            signal.pause()


def _show(system: Hdfs | Kafka | Postgres | S3 | FaultyS3) -> None:
    _say(system.uri)
    for name, value in system.conf.items():
        _say(f"  --conf {name}={value}")
    if system.jars:
        _say(f"  --jars {','.join(map(str, system.jars))}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Missing as missing:
        sys.exit(str(missing))
