"""What jsonb values have, contain and equal, by constants (jsonb_op.c, ``JsonbDeepContains``)."""

from dataclasses import replace
from functools import partial
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect.calls import Call, Handler, known_text, strict
from rewrite.dialect.json_documents import Document, of_text, pattern_of, quoted
from rewrite.dialect.json_parts import begins, elements, has_element, member
from rewrite.values import Value


def _has_key(value: b.Tree, key: str) -> b.Tree:
    """Return whether a text is a key of an object, an element of an array, or the value itself."""
    return b.case(
        (begins(value, "{"), b.is_not_null(member(value, key))),
        (begins(value, "["), has_element(value, pattern_of(key))),
        otherwise=b.infix(exp.EQ, value, b.string(quoted(key))),
    )


def _exists(call: Call) -> Value:
    key = call.text_constant(1)
    return call.result(b.let([call.trees[0]], lambda value: _has_key(value, key)))


def _several_exist(connector: type[exp.Connector], empty: b.Tree) -> Handler:
    """Map a test of several keys, of which NULLs do not count."""

    def handle(call: Call) -> Value:
        keys = [key for key in call.texts_constant(1) if key is not None]

        def tested(value: b.Tree) -> b.Tree:
            tests = [_has_key(value, key) for key in keys]
            answer = b.chain(connector, tests) if tests else empty
            return b.case((b.is_not_null(value), answer))

        return call.result(b.let([call.trees[0]], tested))

    return strict(handle)


def _equals(value: b.Tree, document: Document) -> b.Tree:
    return b.call("rlike", value, b.string(rf"\A(?:{pattern_of(document)})\z"))


def _contains(value: b.Tree, document: Document) -> b.Tree:
    """Return whether a value of an object contains a document; a scalar has to equal it."""
    if isinstance(document, dict):
        pairs = [
            b.let([member(value, key)], partial(_is_there, document=item))
            for key, item in document.items()
        ]
        return b.both(begins(value, "{"), *pairs)
    if isinstance(document, list):
        return b.both(begins(value, "["), *_elements_there(value, document))
    return _equals(value, document)


def _is_there(value: b.Tree, document: Document) -> b.Tree:
    return b.case((b.is_not_null(value), _contains(value, document)), otherwise=b.FALSE)


def _elements_there(array: b.Tree, documents: list[Document]) -> list[b.Tree]:
    """Return conditions that there are elements of an array that contain documents."""
    inner = [one for one in documents if isinstance(one, dict | list)]
    scalars = [one for one in documents if not isinstance(one, dict | list)]
    tests = [has_element(array, pattern_of(one)) for one in scalars]

    def all_inner(found: b.Tree) -> b.Tree:
        return b.both(*(_one_contains(found, one) for one in inner))

    return [*tests, b.let([elements(array)], all_inner)] if inner else tests


def _one_contains(found: b.Tree, document: Document) -> b.Tree:
    """Return whether one of some values contains a document."""

    def tested(name: str) -> b.Tree:
        test = _contains(b.variable(name), document)
        return b.call("exists", found, b.lambda_function(test, name))

    return b.fresh_variable(tested)


def _containment(container: int) -> Handler:
    """Map a test whether the argument of that number contains the other one."""

    def handle(call: Call) -> Value:
        document = of_text(call.text_constant(1 - container))

        def tested(value: b.Tree) -> b.Tree:
            answer = _contains(value, document)
            if not isinstance(document, dict | list):
                # Alone, a scalar is an element, too.
                element = has_element(value, pattern_of(document))
                answer = b.case((begins(value, "["), element), otherwise=answer)
            return b.case((b.is_not_null(value), answer))

        return call.result(b.let([call.trees[container]], tested))

    return strict(handle)


def _equality(call: Call) -> Value:
    constant = 1 if known_text(call.args[0]) is None else 0
    document = of_text(call.text_constant(constant))
    return call.result(_equals(call.trees[1 - constant], document))


def _inequality(call: Call) -> Value:
    equal = _equality(call)
    return replace(equal, sql=b.negation(equal.sql))


FUNCTIONS: Final[dict[str, Handler]] = {
    "jsonb_exists": strict(_exists),
    "jsonb_exists_any": _several_exist(exp.Or, b.FALSE),
    "jsonb_exists_all": _several_exist(exp.And, b.TRUE),
    "jsonb_contains": _containment(0),
    "jsonb_contained": _containment(1),
    "jsonb_eq": strict(_equality),
    "jsonb_ne": strict(_inequality),
}
