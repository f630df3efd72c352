"""Lets `python -m statemigrate.cli` stand in for the `statemigrate` command."""

from statemigrate.cli import main

main(prog_name="statemigrate")
