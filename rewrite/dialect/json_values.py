"""Values of type jsonb: what is in them, and what they contain (jsonb_op.c, jsonfuncs.c).

They are stored as PostgreSQL prints them, which is one text for each: keys in order, no spaces but
after commas and colons, numbers with all their digits. Parts are cut out of that text. Spark's own
functions would print numbers and nested documents anew, in another form.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import casts, oids
from rewrite.dialect.calls import Call, Handler, known_text
from rewrite.dialect.json_documents import Document, of_text, pattern_of, quoted
from rewrite.dialect.literals import typed_null
from rewrite.dialect.text_input import input_value
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_MOST_LEVELS: Final = 10
"""How deep documents may be nested of which parts are taken; deeper ones are refused."""

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'


def _nested(levels: int) -> str:
    """Return the pattern of an object or array; it never tries in two ways, so it is linear."""
    inner = f"|{_nested(levels - 1)}" if levels > 1 else ""
    return rf'[{{\[](?:[^"{{}}\[\]]++|{_STRING}{inner})*+[}}\]]'


_VALUE: Final = rf'(?:{_STRING}|[^"{{}}\[\],]++|{_nested(_MOST_LEVELS)})'
_MORE: Final = "(?:, )?+"
_WHOLE_ARRAY: Final = rf"\A\[(?:{_VALUE}{_MORE})*+\]\z"
_ELEMENT: Final = rf"\G(?:\A\[|, )({_VALUE})"
_WHOLE_OBJECT: Final = rf"\A\{{(?:{_STRING}: {_VALUE}{_MORE})*+\}}\z"
_KEY: Final = rf"\G(?:\A\{{|, )({_STRING}): {_VALUE}"
_ITEM: Final = rf"\G(?:\A\{{|, ){_STRING}: ({_VALUE})"
_INDEX: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]{1,10})")
_MAX_INDEX: Final = 2**31


def _too_deep() -> b.Tree:
    return b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"taking parts of a jsonb value nested in more than {_MOST_LEVELS} levels is not supported",
    )


def begins(value: b.Tree, sign: str) -> b.Tree:
    """Return whether a value is of the kind whose texts begin so."""
    return b.call("startswith", value, b.string(sign))


def invalid(message: str) -> b.Tree:
    """Return the error of a function that is called with a value of another kind."""
    return b.raise_error(sqlstate.INVALID_PARAMETER_VALUE, message)


def _cut(value: b.Tree, pattern: str) -> b.Tree:
    """Return the first group of a pattern, which is the closing bracket where there is no part."""

    def part(found: b.Tree) -> b.Tree:
        closed = exp.In(this=b.group(found), expressions=[b.string("}"), b.string("]")])
        failed = b.infix(exp.EQ, found, b.string(""))
        return b.case((failed, _too_deep()), (b.negation(closed), found))

    return b.let([b.call("regexp_extract", value, b.string(pattern), b.integer(1))], part)


def _member(value: b.Tree, key: str) -> b.Tree:
    """Return the value of a key of an object, NULL where it has none."""
    name = re.escape(quoted(key))
    others = rf"(?:(?!{name}: ){_STRING}: {_VALUE}{_MORE})*+"
    return _cut(value, rf"\A\{{{others}(?:{name}: |(?=\}}))({_VALUE}|\}})")


def elements_of(array: b.Tree) -> b.Tree:
    """Return the texts of the elements of an array."""
    return _parts(array, _WHOLE_ARRAY, _ELEMENT)


def members_of(value: b.Tree) -> tuple[b.Tree, b.Tree]:
    """Return the keys of an object as they are written, and the texts of its values."""
    return _parts(value, _WHOLE_OBJECT, _KEY), _parts(value, _WHOLE_OBJECT, _ITEM)


def _parts(value: b.Tree, whole: str, part: str) -> b.Tree:
    """Return the texts of the first group of a pattern, all of them, of a value that is whole."""
    found = b.call("regexp_extract_all", value, b.string(part), b.integer(1))
    is_whole = b.call("rlike", value, b.string(whole))
    return b.case((b.negation(is_whole), _too_deep()), otherwise=found)


def _element(array: b.Tree, index: int) -> b.Tree:
    """Return an element of an array, counted from its end if negative; NULL where it has none."""
    if index >= 0:
        before = rf"(?:{_VALUE}{_MORE}){{0,{index}}}+" if index else ""
        return _cut(array, rf"\A\[{before}({_VALUE}|\])")
    wanted = b.integer(index)

    def counted(elements: b.Tree) -> b.Tree:
        enough = b.infix(exp.GTE, b.call("size", elements), b.integer(-index))
        return b.case((enough, b.call("element_at", elements, wanted)))

    return b.let([elements_of(array)], counted)


def _has_element(array: b.Tree, pattern: str) -> b.Tree:
    """Return whether an array has an element of which a pattern is."""
    end = r"(?=, |\])"
    others = rf"(?:(?!{pattern}{end}){_VALUE}{_MORE})*+"
    return b.is_not_null(_cut(array, rf"\A\[{others}({pattern}{end}|\])"))


def text_of(value: b.Tree) -> b.Tree:
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
    message = "texts in jsonb values of this length are not supported"
    unread = b.raise_error(sqlstate.FEATURE_NOT_SUPPORTED, message)
    return b.case((b.is_not_null(text), text), otherwise=unread)


def _index(text: str) -> int | None:
    """Return the number of an element that a step of a path names."""
    found = _INDEX.fullmatch(text)
    number = int(found[1]) if found else _MAX_INDEX
    return number if -_MAX_INDEX <= number < _MAX_INDEX else None


def _in_object(value: b.Tree, key: str) -> b.Tree:
    return b.let([value], lambda value: b.case((begins(value, "{"), _member(value, key))))


def _in_array(value: b.Tree, index: int) -> b.Tree:
    """Return an element of an array; a scalar counts as an array of itself here."""

    def found(value: b.Tree) -> b.Tree:
        own = [(b.negation(begins(value, "{")), value)] if index in {0, -1} else []
        return b.case((begins(value, "["), _element(value, index)), *own)

    return b.let([value], found)


def _at(value: b.Tree, path: Sequence[str]) -> b.Tree:
    """Return what a path leads to, through objects and arrays."""

    def step(key: str, value: b.Tree) -> b.Tree:
        index = _index(key)
        branches = [(begins(value, "{"), _member(value, key))]
        if index is not None:
            branches.append((begins(value, "["), _element(value, index)))
        return b.case(*branches)

    for key in path:
        value = b.let([value], partial(step, key))
    return value


def part_of_document(document: Value, subscripts: Sequence[Value]) -> Value:
    """Return what subscripts lead to, which are texts and numbers (``jsonb_subscript_fetch``)."""
    path = []
    for one in subscripts:
        if one.constant is None:
            raise UnsupportedError("subscripts of jsonb that are not constant are not supported")
        if one.constant.value is None:
            return typed_null(oids.JSONB, -1)
        path.append(str(one.constant.value))
    return Value(_at(document.sql, path), oids.JSONB)


def _as_text(take: Callable[[Call], b.Tree | None]) -> Handler:
    def handle(call: Call) -> Value:
        found = take(call)
        if found is None:
            return typed_null(call.result_oid, call.result_typmod)
        return call.result(text_of(found))

    return handle


def _as_document(take: Callable[[Call], b.Tree | None]) -> Handler:
    def handle(call: Call) -> Value:
        found = take(call)
        if found is None:
            return typed_null(call.result_oid, call.result_typmod)
        return call.result(found)

    return handle


def _field(call: Call) -> b.Tree | None:
    if b.is_null_literal(call.trees[1]):
        return None
    return _in_object(call.trees[0], call.text_constant(1))


def _numbered(call: Call) -> b.Tree | None:
    if b.is_null_literal(call.trees[1]):
        return None
    return _in_array(call.trees[0], call.integer_constant(1))


def _path(call: Call) -> b.Tree | None:
    path = _texts(call)
    if path is None or None in path:
        return None
    return _at(call.trees[0], [step for step in path if step is not None])


def _texts(call: Call) -> Sequence[str | None] | None:
    """Return an array of texts that must be known."""
    if b.is_null_literal(call.trees[1]):
        return None
    constant = call.args[1].constant
    if constant is None or not isinstance(constant.value, list | tuple):
        raise call.refuse("with argument 2 that is not a constant")
    return constant.value


def _type(call: Call) -> Value:
    def named(value: b.Tree) -> b.Tree:
        signs = {"{": "object", "[": "array", '"': "string", "n": "null", "t": "boolean"}
        names = {**signs, "f": "boolean"}
        branches = [(begins(value, sign), b.string(name)) for sign, name in names.items()]
        return b.case(*branches, (b.is_not_null(value), b.string("number")))

    return call.result(b.let([call.trees[0]], named))


def _length(call: Call) -> Value:
    def counted(value: b.Tree) -> b.Tree:
        refusals = [
            (begins(value, "{"), "cannot get array length of a non-array"),
            (b.negation(begins(value, "[")), "cannot get array length of a scalar"),
        ]
        failures = [(condition, invalid(message)) for condition, message in refusals]
        return b.case(*failures, otherwise=b.call("size", elements_of(value)))

    def known(value: b.Tree) -> b.Tree:
        return b.case((b.is_not_null(value), counted(value)))

    return call.result(b.let([call.trees[0]], known))


def _exists(value: b.Tree, key: str) -> b.Tree:
    """Return whether a text is a key of an object, an element of an array, or the value itself."""
    name = quoted(key)
    return b.case(
        (begins(value, "{"), b.is_not_null(_member(value, key))),
        (begins(value, "["), _has_element(value, re.escape(name))),
        otherwise=b.infix(exp.EQ, value, b.string(name)),
    )


def _has_key(call: Call) -> Value:
    if b.is_null_literal(call.trees[1]):
        return typed_null(call.result_oid, call.result_typmod)
    key = call.text_constant(1)
    return call.result(b.let([call.trees[0]], lambda value: _exists(value, key)))


def _has_keys(connector: type[exp.Connector], empty: b.Tree) -> Handler:
    def handle(call: Call) -> Value:
        keys = _texts(call)
        if keys is None:
            return typed_null(call.result_oid, call.result_typmod)

        def tested(value: b.Tree) -> b.Tree:
            tests = [b.group(_exists(value, key)) for key in keys if key is not None]
            answer = b.chain(connector, tests) if tests else empty
            return b.case((b.is_not_null(value), answer))

        return call.result(b.let([call.trees[0]], tested))

    return handle


def _document(value: Value, call: Call) -> Document:
    text = known_text(value)
    if text is None:
        raise call.refuse("with an argument that is not a constant")
    return of_text(text)


def _is_container(document: Document) -> bool:
    return isinstance(document, Mapping | Sequence) and not isinstance(document, str)


def _matches(value: b.Tree, document: Document) -> b.Tree:
    """Return whether a value equals a document."""
    return b.call("rlike", value, b.string(rf"\A(?:{pattern_of(document)})\z"))


def _contains(value: b.Tree, document: Document) -> b.Tree:
    """Return whether a value contains an object or array (``JsonbDeepContains``)."""
    if isinstance(document, Mapping):
        parts = [
            b.let([_member(value, key)], partial(_holds, document=item))
            for key, item in document.items()
        ]
        return b.both(begins(value, "{"), *parts)
    if not isinstance(document, Sequence):
        raise TypeError(document)
    return b.both(begins(value, "["), *(_has(value, item) for item in document))


def _holds(value: b.Tree, document: Document) -> b.Tree:
    """Return whether a value of an object contains, or is, what is looked for."""
    found = _contains(value, document) if _is_container(document) else _matches(value, document)
    return b.case((b.is_not_null(value), found), otherwise=b.FALSE)


def _has(array: b.Tree, document: Document) -> b.Tree:
    """Return whether an element of an array contains, or is, what is looked for."""
    if not _is_container(document):
        return _has_element(array, pattern_of(document))
    return b.fresh_variable(
        lambda name: b.call(
            "exists",
            elements_of(array),
            b.lambda_function(_contains(b.variable(name), document), name),
        )
    )


def _containment(container: int) -> Handler:
    def handle(call: Call) -> Value:
        part = call.args[1 - container]
        if b.is_null_literal(part.sql):
            return typed_null(call.result_oid, call.result_typmod)
        document = _document(part, call)

        def tested(value: b.Tree) -> b.Tree:
            if _is_container(document):
                answer = _contains(value, document)
            else:
                is_array = begins(value, "[")
                answer = b.case(
                    (is_array, _has(value, document)), otherwise=_matches(value, document)
                )
            return b.case((b.is_not_null(value), answer))

        return call.result(b.let([call.trees[container]], tested))

    return handle


def _equality(call: Call) -> Value:
    one, other = call.args
    value, document = (one, other) if known_text(one) is None else (other, one)
    if b.is_null_literal(document.sql):
        return typed_null(call.result_oid, call.result_typmod)
    return call.result(_matches(value.sql, _document(document, call)))


def _inequality(call: Call) -> Value:
    equal = _equality(call)
    return replace(equal, sql=b.negation(equal.sql))


def _cast(handler: Handler | None, name: str) -> Handler:
    """Map a cast of a number in a document."""

    def handle(call: Call) -> Value:
        def number(value: b.Tree) -> b.Tree:
            branches = [(value_is, _no_cast(kind, name)) for value_is, kind in _others(value)]
            null = b.infix(exp.EQ, value, b.string("null"))
            return b.case((null, b.null_of("STRING")), *branches, otherwise=value)

        text = Value(b.let([call.trees[0]], number), oids.TEXT)
        numeric = input_value(text, oids.NUMERIC)
        if handler is None:
            return numeric
        return handler(replace(call, args=(numeric,)))

    return handle


def _others(value: b.Tree) -> list[tuple[b.Tree, str]]:
    """Return conditions of the kinds of values that are no numbers, with their names."""
    return [
        (begins(value, '"'), "string"),
        (b.either(begins(value, "t"), begins(value, "f")), "boolean"),
        (begins(value, "["), "array"),
        (begins(value, "{"), "object"),
    ]


def _no_cast(kind: str, name: str) -> b.Tree:
    return invalid(f"cannot cast jsonb {kind} to type {name}")


FUNCTIONS: Final[dict[str, Handler]] = {
    "jsonb_object_field": _as_document(_field),
    "jsonb_object_field_text": _as_text(_field),
    "jsonb_array_element": _as_document(_numbered),
    "jsonb_array_element_text": _as_text(_numbered),
    "jsonb_extract_path": _as_document(_path),
    "jsonb_extract_path_text": _as_text(_path),
    "jsonb_typeof": _type,
    "jsonb_array_length": _length,
    "jsonb_exists": _has_key,
    "jsonb_exists_any": _has_keys(exp.Or, b.FALSE),
    "jsonb_exists_all": _has_keys(exp.And, b.TRUE),
    "jsonb_contains": _containment(0),
    "jsonb_contained": _containment(1),
    "jsonb_eq": _equality,
    "jsonb_ne": _inequality,
    "jsonb_numeric": _cast(None, "numeric"),
    "jsonb_int2": _cast(casts.FUNCTIONS["numeric_int2"], "smallint"),
    "jsonb_int4": _cast(casts.FUNCTIONS["numeric_int4"], "integer"),
    "jsonb_int8": _cast(casts.FUNCTIONS["numeric_int8"], "bigint"),
}
