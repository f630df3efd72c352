"""Whether this machine, the workers and a checkpoint are as queries and commands need them."""
