"""Avro binary: values checked, written and read. The only importer of fastavro."""


class Unfit(Exception):  # noqa: N818 - a signal between two parts of this package
    """The value is not one that ``check_of`` accepts as it is."""
