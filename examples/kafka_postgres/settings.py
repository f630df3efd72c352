"""Where the query's systems are, and how it is to run."""

import argparse
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """``kafka`` are the bootstrap servers, ``database`` is what libpq connects to.

    ``engine`` says where state lives: ``spark``, in Spark's own state store, or ``embedded``.
    """

    kafka: str
    database: str
    checkpoint: str
    engine: str
    pandas: bool
    named_sources: bool


def read_settings():
    """The systems from the environment, the rest from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("spark", "embedded"), default="spark")
    parser.add_argument("--pandas", action="store_true", help="a processor that gets DataFrames")
    parser.add_argument("--named-sources", action="store_true", help="Spark 4.3 or newer")
    systems = {name: os.environ[name.upper()] for name in ("kafka", "database", "checkpoint")}
    return Settings(**systems, **vars(parser.parse_args()))
