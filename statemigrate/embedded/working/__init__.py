"""Working copies: a partition's database on this machine, proven or made anew."""
