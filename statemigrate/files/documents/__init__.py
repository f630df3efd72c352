"""Documents: small files read whole, with bounds on what they may hold, and written whole."""
