"""The control source: keys still in an older family, planned, fed and followed."""
