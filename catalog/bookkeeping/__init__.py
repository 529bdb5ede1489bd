"""Calls of the bookkeeping, the codes they carry, and what they tell of journals."""
