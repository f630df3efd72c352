"""One script, part by part, as the Migration it says; what is not as it must be is an error."""
