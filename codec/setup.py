"""The extension module, compiled of its source in Cython."""

from setuptools import Extension, setup

PARTS = ["bytes", "leaves", "moments", "decimals", "containers", "tuples", "columns"]

setup(
    packages=[],
    ext_modules=[
        Extension(
            "statemigrate_codec",
            ["statemigrate_codec.pyx"],
            depends=[f"{part}.pxi" for part in PARTS] + ["digits.h"],
        )
    ],
)
