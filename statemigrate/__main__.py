"""Lets `python -m statemigrate` stand in for the `statemigrate` command."""

from statemigrate.cli import main

main(prog_name="statemigrate")
