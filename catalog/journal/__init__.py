"""The law of journals, as values: how row versions lie, and which of them is a row's current one.

Whatever writes, reads, merges or keeps row versions is derived from what is said here; the
functions of the bookkeeping, which are SQL, are compared with it by a test.
"""
