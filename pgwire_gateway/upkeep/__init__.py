"""Upkeep in the background: flushing, cooling, growing and shrinking."""
