"""The muscle: the only package that talks to Spark."""
