"""Journals as Spark reads them: compiled from the law in :mod:`catalog.journal`."""
