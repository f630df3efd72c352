"""A query in real-time mode over Kafka.

Arguments: a broker, a topic, a checkpoint, the jars, the function's name, and the last batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import test_previews_over_kafka as code
from support.real_time import run_until, session

PATIENCE = 240  # seconds


def main(broker: str, topic: str, checkpoint: str, jars: str, function: str, last: str) -> None:
    """Run until a batch is committed."""
    code.BROKER, code.TOPIC = broker, topic
    rows = getattr(code, function)(code.opened(session(2, jars)))
    commit = Path(checkpoint, "commits", last)
    run_until(lambda _: commit.exists(), rows, Path(checkpoint), patience=PATIENCE)


if __name__ == "__main__":
    main(*sys.argv[1:])
