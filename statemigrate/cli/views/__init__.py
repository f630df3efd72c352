"""How the larger results look in a terminal."""
