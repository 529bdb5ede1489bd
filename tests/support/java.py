"""How the JVMs of tests are started."""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Leaves out the compiler that optimises.

A JVM lives for minutes here and mostly plans: what the compiler costs it does not get back, and it
would compete with the tests of the other process for the cores.
"""
