"""Python as text: what generated scripts are made of."""
