"""Statements as texts: split, classified, with what the gateway needs of them."""
