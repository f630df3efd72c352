"""The demonstration: a stream whose state changes its format while a crash gets in the way.

`statemigrate.demo.run.run_demo` yields what happens; drawing it is left to the caller.
"""
