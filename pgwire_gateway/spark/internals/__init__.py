"""Spark by the internals of its driver: the JVM is a child, and its own classes are called."""
