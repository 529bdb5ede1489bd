"""What SQLAlchemy's suite may ask of PostgreSQL 18 and does not of every database."""

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

SUPPORTED = (
    "aggregate_order_by",
    "array_type",
    "autocommit",
    "boolean_col_expressions",
    "cast_precision_numerics_many_significant_digits",
    "check_constraint_reflection",
    "column_collation_reflection",
    "comment_reflection",
    "comment_reflection_full_unicode",
    "computed_columns",
    "computed_columns_reflect_persisted",
    "computed_columns_stored",
    "computed_columns_virtual",
    "constraint_comment_reflection",
    "create_or_replace_view",
    "create_table_as",
    "create_temp_table_as",
    "cross_schema_fk_reflection",
    "ctes",
    "ctes_on_dml",
    "ctes_with_update_delete",
    "ctes_with_values",
    "date_historic",
    "datetime_historic",
    "datetime_interval",
    "datetime_literals",
    "datetime_timezone",
    "datetime_timezone_historic",
    "default_schema_name_switch",
    "deferrable_fks",
    "except_",
    "expression_server_defaults",
    "fetch_expression",
    "fetch_first",
    "fetch_no_order_by",
    "fetch_offset_with_options",
    "fetch_ties",
    "fk_constraint_option_reflection_ondelete_noaction",
    "fk_constraint_option_reflection_ondelete_restrict",
    "fk_constraint_option_reflection_onupdate_restrict",
    "float_or_double_precision_behaves_generically",
    "foreign_key_constraint_name_reflection",
    "foreign_key_constraint_option_reflection_ondelete",
    "foreign_key_constraint_option_reflection_onupdate",
    "has_temp_table",
    "identity_columns",
    "identity_columns_standard",
    "implicit_default_schema",
    "index_ddl_if_exists",
    "index_reflects_included_columns",
    "indexes_check_column_order",
    "indexes_with_expressions",
    "infinity_floats",
    "inline_check_constraint_reflection",
    "intersect",
    "isolation_level",
    "json_array_indexes",
    "json_deserializer_binary",
    "json_type",
    "legacy_unconditional_json_extract",
    "materialized_views",
    "nullsordering",
    "order_by_collation",
    "percent_schema_names",
    "precision_numerics_enotation_small",
    "precision_numerics_many_significant_digits",
    "precision_numerics_retains_significant_digits",
    "reflect_indexes_with_expressions",
    "reflect_table_options",
    "reflect_tables_no_columns",
    "reflects_pk_names",
    "regexp_match",
    "regexp_replace",
    "repeated_column_foreign_keys",
    "savepoints",
    "schema_create_delete",
    "server_defaults",
    "skip_autocommit_rollback",
    "supports_bitwise_and",
    "supports_bitwise_not",
    "supports_bitwise_or",
    "supports_bitwise_shift",
    "supports_bitwise_xor",
    "supports_distinct_on",
    "table_ddl_if_exists",
    "table_value_constructor",
    "temp_table_comment_reflection",
    "temp_table_names",
    "temporary_views",
    "time_timezone",
    "tuple_in",
    "tuple_in_w_empty",
    "unicode_ddl",
    "unique_constraints_reflect_as_index",
    "update_from",
    "uuid_data_type",
    "view_column_reflection",
    "view_reflection",
    "views",
    "window_functions",
    "window_range",
    "window_range_non_numeric",
    "window_range_numeric",
)
"""Requirements that are closed unless a dialect opens them; PostgreSQL meets these."""

ISOLATION_LEVELS = (
    "AUTOCOMMIT",
    "READ COMMITTED",
    "READ UNCOMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
)


class Requirements(SuiteRequirements):
    """The suite's own defaults, and what PostgreSQL has besides."""

    def get_order_by_collation(self, _config: object) -> str:
        """Return a collation of the server that is not its default."""
        return "POSIX"

    def get_isolation_levels(self, _config: object) -> dict[str, object]:
        """Return the default and all isolation levels."""
        return {"default": "READ COMMITTED", "supported": ISOLATION_LEVELS}


for _name in SUPPORTED:
    setattr(Requirements, _name, property(lambda _: exclusions.open()))
