"""A client's session: its state, what it sees, and one execution of a statement in it."""
