from tests.support.fix_spark import journal, own_py4j, spark_engine, spark_relations

__all__ = ["journal", "own_py4j", "spark_engine", "spark_relations"]
