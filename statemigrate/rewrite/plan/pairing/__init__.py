"""Which old operator, state and field each new one goes on with."""
