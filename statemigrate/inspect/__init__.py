"""Looking at scripts, code and state from outside, without changing any of them."""
