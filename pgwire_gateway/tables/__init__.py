"""Statements about whole tables: making, filling, dividing, registering and compacting them."""
