"""Rows of journals: which a statement needs, finding them, writing them, keeping keys unique."""
