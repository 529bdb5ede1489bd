"""Lines of the rule of thaw-and-run that are left out, to show what each prevents."""

import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType

import pytest

from rewrite.needs import statement
from rewrite.needs.results import Needs, Refusal
from rewrite.tree import Node
from tests.support.campaigns import campaign
from tests.support.outcomes import Verdict
from tests.support.random_forms import Form
from tests.support.thawing import Thawing

logger = logging.getLogger(__name__)

CONTROL_STATEMENTS = 20_000
"""After how many statements a control must have been found at the latest."""

Patch = Callable[[pytest.MonkeyPatch], None]
Rule = Callable[[Sequence[Node]], Needs]


def changed(thawing: Thawing, change: Patch) -> Rule:
    """Return the rule with something in it changed."""

    def altered(queries: Sequence[Node]) -> Needs:
        with pytest.MonkeyPatch.context() as patch:
            change(patch)
            return statement.needs(queries, thawing.definitions)

    return altered


def found_after(
    thawing: Thawing, altered: Rule, kinds: Collection[str], favoured: Collection[Form] = ()
) -> int:
    """Return the number of statements after which a mismatch is found.

    Those are not run for which the rule without its line says the same as with it. The forms that
    the line is about are favoured, so that it is not luck to come across what is rare.
    """
    for number, sql in enumerate(campaign(thawing, CONTROL_STATEMENTS, kinds, favoured), 1):
        queries = thawing.queries(sql)
        try:
            wrong = altered(queries)
        except Refusal:
            continue
        try:
            right: Needs | None = statement.needs(queries, thawing.definitions)
        except Refusal:
            right = None
        # Nodes are equal only if they are one, and those of sources are made anew.
        differs = wrong != right and repr(wrong) != repr(right)
        if differs and _is_wrong(thawing, sql, wrong):
            logger.info("found after %s statements: %s", number, sql)
            return number
    raise AssertionError(f"not found in {CONTROL_STATEMENTS} statements")


def _is_wrong(thawing: Thawing, sql: str, wanted: Needs) -> bool:
    try:
        return thawing.compare(sql, wanted).verdict is Verdict.MISMATCH
    except NotImplementedError:  # what is searched cannot be written as SQL
        thawing.connection.rollback()
        return False


def replaced(module: ModuleType, old: str, new: str) -> Patch:
    """Return what puts another text in the place of one that a module has once.

    Its functions, and those of its classes, are changed where they are: whoever has them by name
    calls what they have become. So are its constants, for the module alone.
    """
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{module.__name__} has {source.count(old)} of {old!r}"
    namespace = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(source.replace(old, new), module.__file__ or "", "exec"), namespace)  # noqa: S102
    altered = list(_altered(vars(module), namespace, module.__name__))
    constants = {
        name: value
        for name, value in namespace.items()
        if isinstance(value, (tuple, frozenset)) and vars(module)[name] != value
    }
    assert altered or constants, f"{new!r} changes nothing"

    def change(patch: pytest.MonkeyPatch) -> None:
        for function, code in altered:
            patch.setattr(function, "__code__", code)
        for name, value in constants.items():
            patch.setattr(module, name, value)

    return change


def _altered(
    before: Mapping[str, object], after: Mapping[str, object], name: str
) -> Iterator[tuple[FunctionType, CodeType]]:
    """Yield the functions that are others, each with what it is to do."""
    for key in after.keys() & before.keys():
        one, was = (getattr(part, "fget", part) for part in (after[key], before[key]))
        if getattr(one, "__module__", None) != name:
            continue
        if isinstance(one, type) and isinstance(was, type):
            yield from _altered(vars(was), vars(one), name)
            continue
        both_called = isinstance(one, FunctionType) and isinstance(was, FunctionType)
        if both_called and one.__code__ != was.__code__:
            yield was, one.__code__
