"""Foreign keys of tiered tables, and to them."""
