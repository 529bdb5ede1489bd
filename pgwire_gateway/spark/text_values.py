"""Values in CSV and JSON files as those of types, in the forms that PostgreSQL's text has.

Spark reads more, and other things: 1,5 as 15, 10:00 as today's time, 1e400 as infinity.
"""

from typing import Final

from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.type_oids import NUMERIC, VARCHAR

_SPACE: Final = r"[ \t\n\x0b\f\r]*"
_NUMBER: Final = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_DAY: Final = r"[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_HOURS: Final = r"[ T][0-9]{1,2}:[0-9]{2}"
_SECONDS: Final = r":[0-9]{2}([.][0-9]{1,6})?"
_ZONE: Final = r"( ?(Z|[+-][0-9]{2}(:[0-9]{2})?))?"

_FORMS: Final = {
    "TINYINT": ("smallint", "[+-]?[0-9]+"),
    "SMALLINT": ("smallint", "[+-]?[0-9]+"),
    "INT": ("integer", "[+-]?[0-9]+"),
    "BIGINT": ("bigint", "[+-]?[0-9]+"),
    "DECIMAL": ("numeric", _NUMBER),
    "FLOAT": ("real", _NUMBER),
    "DOUBLE": ("double precision", _NUMBER),
    "DATE": ("date", _DAY),
    "TIMESTAMP": ("timestamp with time zone", f"{_DAY}({_HOURS}({_SECONDS}{_ZONE})?)?"),
    "TIMESTAMP_NTZ": ("timestamp", f"{_DAY}({_HOURS}({_SECONDS})?)?"),
}
"""What types of Spark are called, and the form of their values."""

_MOMENTS: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})
_FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
_SPECIAL: Final = f"(?i)^{_SPACE}([+-]?inf(inity)?|nan){_SPACE}\\z"
_TRUE: Final = f"(?i)^{_SPACE}(t|tr|tru|true|y|ye|yes|on|1){_SPACE}\\z"
_FALSE: Final = f"(?i)^{_SPACE}(f|fa|fal|fals|false|n|no|of|off|0){_SPACE}\\z"
_PLAIN_NUMERIC: Final = r"^(NaN|-?Infinity|(?!-0([.]0+)?\z)-?(0|[1-9][0-9]*)([.][0-9]+)?)\z"
"""Numbers without bounds as PostgreSQL writes them; they are kept and compared in this form."""

_OTHER_NUMERIC: Final = f"^{_SPACE}{_NUMBER}{_SPACE}\\z"


def is_read(spark_type: str) -> bool:
    """Tell whether values of a type of Spark are read here, from text."""
    return spark_type == "BOOLEAN" or _name(spark_type) in _FORMS


def read(text: str, spark_type: str) -> str:
    """Return an expression for a value of a type that is read here.

    It fails with 22P02 or 22007 for text of another form, with 22003 or 22008 for what is out of
    range.

    Args:
        text: An expression for its text, which is NULL where the value is.
        spark_type: The type as SQL.
    """
    if spark_type == "BOOLEAN":
        return (
            f"CASE WHEN {_matches(text, _TRUE)} THEN true WHEN {_matches(text, _FALSE)} THEN false"
            f" WHEN {text} IS NOT NULL THEN {_invalid(text, 'boolean')} END"
        )
    name, form = _FORMS[_name(spark_type)]
    number = f"try_cast({text} AS {spark_type})"
    if _name(spark_type) in _MOMENTS:
        message = f"'date/time field value out of range: \"', {text}, '\"'"
        outside = _error(codes.DATETIME_FIELD_OVERFLOW, message)
        invalid = _invalid(text, name, codes.INVALID_DATETIME_FORMAT)
    else:
        message = f"'value \"', {text}, '\" is out of range for type {name}'"
        outside = _error(codes.NUMERIC_VALUE_OUT_OF_RANGE, message)
        invalid = _invalid(text, name)
    failed, special = f"{number} IS NULL", ""
    if spark_type in _FLOATS:
        vanished = f"{number} = 0 AND {_matches(text, '^[^eE]*[1-9]')}"
        failed = f"{failed} OR abs({number}) = double('Infinity') OR {vanished}"
        special = f"WHEN {_matches(text, _SPECIAL)} THEN {number} "
    return (
        f"CASE WHEN {_matches(text, f'^{_SPACE}{form}{_SPACE}' + chr(92) + 'z')}"
        f" THEN CASE WHEN {failed} THEN {outside} ELSE {number} END {special}"
        f"WHEN {text} IS NOT NULL THEN {invalid} END"
    )


def checked(text: str, type_oid: int, typmod: int) -> str:
    """Return an expression for a value that is kept as text.

    It fails with 22001 for what is too long and, where the type is numeric, with 0A000 for numbers
    in other forms than PostgreSQL writes, with 22P02 for what is none.
    """
    if type_oid == NUMERIC:
        message = f"'this form of text as numeric is not supported: \"', {text}, '\"'"
        other = _error(codes.FEATURE_NOT_SUPPORTED, message)
        return (
            f"CASE WHEN {_matches(text, _PLAIN_NUMERIC)} THEN {text}"
            f" WHEN {_matches(text, _OTHER_NUMERIC)} THEN {other}"
            f" WHEN {text} IS NOT NULL THEN {_invalid(text, 'numeric')} END"
        )
    if type_oid == VARCHAR and typmod >= 0:
        longest = typmod - 4
        message = f"'value too long for type character varying({longest})'"
        return (
            f"CASE WHEN char_length({text}) <= {longest} THEN {text}"
            f" WHEN {_matches(f'substring({text}, {longest + 1})', '^ *' + chr(92) + 'z')}"
            f" THEN left({text}, {longest}) WHEN {text} IS NOT NULL"
            f" THEN {_error(codes.STRING_DATA_RIGHT_TRUNCATION, message)} END"
        )
    return text


def _name(spark_type: str) -> str:
    return spark_type.partition("(")[0].upper()


def _matches(text: str, pattern: str) -> str:
    return f"{text} RLIKE r'{pattern}'"


def _invalid(text: str, name: str, code: str = codes.INVALID_TEXT_REPRESENTATION) -> str:
    return _error(code, f"'invalid input syntax for type {name}: \"', {text}, '\"'")


def _error(code: str, message: str) -> str:
    fields = f"named_struct('sqlstate', '{code}', 'message', concat({message}))"
    return f"raise_error(to_json({fields}))"
