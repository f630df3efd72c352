"""Histories at random for as long as it is given: ``make soak MINUTES=60 ENGINE=embedded``."""
