"""Parts of the test suite: each module in one of them, with about as much work in each."""

import argparse
from collections.abc import Mapping


def part(text: str) -> tuple[int, int]:
    """The number of a part, from 1, and how many there are, as in ``2/3``."""
    number, _, parts = text.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not N/PARTS with N from 1 to PARTS")
    return int(number), int(parts)


def modules_of_part(weights: Mapping[str, float], number: int, parts: int) -> set[str]:
    """The modules of one part, given the work of each: its tests, each by its weight.

    A module stays whole, since its tests share what it sets up.
    """
    shares: list[set[str]] = [set() for _ in range(parts)]
    sizes = [0.0] * parts
    for module in sorted(weights, key=lambda each: (-weights[each], each)):
        smallest = sizes.index(min(sizes))
        shares[smallest].add(module)
        sizes[smallest] += weights[module]
    return shares[number - 1]
