"""Fields of many values at once, in Arrow arrays of structs: which have one, and which differ.

Fields are those of formats that have columns: within structs, and not in lists or maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


def validity(array: Any, parts: Sequence[str]) -> Mask:
    """For each value whether it has more than a null at a place, which may not be there at all."""
    import numpy as np
    import pyarrow as pa

    mask = np.ones(len(array), bool)
    found = array
    for name in parts:
        place = found.type.get_field_index(name) if pa.types.is_struct(found.type) else -1
        if place < 0:
            return np.zeros(len(array), bool)
        found = found.field(place)
        if found.null_count:
            mask &= found.is_valid().to_numpy(zero_copy_only=False)
    return mask


def equal_to(array: Any, parts: Sequence[str], value: Any) -> Mask:
    """For each value whether it surely has this plain one at a place, None where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from statemigrate.formats import plain_array

    has = validity(array, parts)
    if value is None or not has.any():
        return ~has
    found = array
    for name in parts:
        found = found.field(name)
    try:
        same = pc.equal(found, plain_array([value], found.type)[0])
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        # A struct, or what another type has become: whoever asks looks at a value more.
        return has & False
    mask: Mask = has & pc.fill_null(same, fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def first_of(mask: Mask) -> Iterator[int]:
    """The first place that a mask has, or none."""
    place = int(mask.argmax()) if mask.size else 0
    if mask.size and mask[place]:
        yield place
