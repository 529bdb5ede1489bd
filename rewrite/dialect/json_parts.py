"""Parts of jsonb values, cut out of the texts by which they are stored.

Spark's own functions of JSON would print numbers and nested values anew, in another form.
"""

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import json_patterns as patterns
from rewrite.dialect.json_documents import quoted


def begins(value: b.Tree, sign: str) -> b.Tree:
    """Return whether a value is of the kind whose texts begin so."""
    return b.call("startswith", value, b.string(sign))


def invalid(message: str) -> b.Tree:
    """Return the error of a function that is called with a value of another kind."""
    return b.raise_error(sqlstate.INVALID_PARAMETER_VALUE, message)


def _too_deep() -> b.Tree:
    return b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        "taking parts of a jsonb value nested in more than"
        f" {patterns.MOST_LEVELS} levels is not supported",
    )


def _cut(value: b.Tree, pattern: str) -> b.Tree:
    """Return the first group of a pattern, NULL where it is the end of the value.

    A pattern that finds neither has met what is nested too deep. So it has to be one for values of
    this kind.
    """

    def part(found: b.Tree) -> b.Tree:
        ends = exp.In(this=b.group(found), expressions=[b.string("}"), b.string("]")])
        failed = b.infix(exp.EQ, found, b.string(""))
        return b.case((failed, _too_deep()), (b.negation(ends), found))

    return b.let([b.call("regexp_extract", value, b.string(pattern), b.integer(1))], part)


def member(value: b.Tree, key: str) -> b.Tree:
    """Return the value of a key of an object, NULL where it has none."""
    return _cut(value, patterns.member(quoted(key)))


def element(array: b.Tree, index: int) -> b.Tree:
    """Return an element of an array, counted from its end if negative; NULL where it has none."""
    if index >= 0:
        return _cut(array, patterns.element(index))
    wanted = b.integer(index)

    def counted(found: b.Tree) -> b.Tree:
        first = b.negate(b.call("size", found))
        return b.case((b.infix(exp.LTE, first, wanted), b.call("element_at", found, wanted)))

    return b.let([elements(array)], counted)


def has_element(array: b.Tree, pattern: str) -> b.Tree:
    """Return whether a pattern matches an element of an array."""
    return b.is_not_null(_cut(array, patterns.equal_element(pattern)))


def elements(array: b.Tree) -> b.Tree:
    """Return the array of the elements of an array."""
    return _all(array, patterns.ARRAY, patterns.ELEMENTS)


def keys(value: b.Tree) -> b.Tree:
    """Return the array of the keys of an object, as they are written."""
    return _all(value, patterns.OBJECT, patterns.KEYS)


def items(value: b.Tree) -> b.Tree:
    """Return the array of the values of the keys of an object."""
    return _all(value, patterns.OBJECT, patterns.ITEMS)


def _all(value: b.Tree, whole: str, part: str) -> b.Tree:
    found = b.call("regexp_extract_all", value, b.string(part), b.integer(1))
    is_whole = b.call("rlike", value, b.string(whole))
    return b.case((b.negation(is_whole), _too_deep()), otherwise=found)


def unquoted(value: b.Tree) -> b.Tree:
    """Return what ``->>`` makes of a value: strings without their quotation marks, null as NULL."""

    def shown(value: b.Tree) -> b.Tree:
        inner = b.infix(exp.Sub, b.call("length", value), b.integer(2))
        plain = b.call("substring", value, b.integer(2), inner)
        wrapped = b.call("concat", b.string('{"a":'), value, b.string("}"))
        unescaped = b.call("get_json_object", wrapped, b.string("$.a"))
        is_null = b.either(b.is_null(value), b.infix(exp.EQ, value, b.string("null")))
        has_no_escape = b.infix(exp.EQ, b.call("instr", value, b.string("\\")), b.integer(0))
        return b.case(
            (is_null, b.null_of("STRING")),
            (b.negation(begins(value, '"')), value),
            (has_no_escape, plain),
            otherwise=b.let([unescaped], _read),
        )

    return b.let([value], shown)


def _read(text: b.Tree) -> b.Tree:
    """Return a text that Spark has read; it does not read tens of megabytes."""
    message = "texts with escapes in jsonb values of this length are not supported"
    unread = b.raise_error(sqlstate.FEATURE_NOT_SUPPORTED, message)
    return b.case((b.is_not_null(text), text), otherwise=unread)
