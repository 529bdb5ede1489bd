"""Spark by PySpark's public interface alone."""
