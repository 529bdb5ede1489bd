"""Statements that PostgreSQL's grammar does not know: a module for each, texts in, values out."""
