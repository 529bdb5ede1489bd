"""Who executes a statement, decided before it runs."""
