"""Lines of the rule of thaw-and-run that are left out, to show what each prevents."""

import logging
from collections.abc import Callable, Collection, Sequence

import pytest

from rewrite.needs import statement
from rewrite.needs.results import Needs, Refusal
from rewrite.tree import Node
from tests.support.random_forms import Form
from tests.support.thawing import Thawing, Verdict, campaign

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
            right, wrong = statement.needs(queries, thawing.definitions), altered(queries)
        except Refusal:
            continue
        # Nodes are equal only if they are one, and those of sources are made anew.
        differs = wrong != right and repr(wrong) != repr(right)
        if differs and thawing.compare(sql, wrong).verdict is Verdict.MISMATCH:
            logger.info("found after %s statements: %s", number, sql)
            return number
    raise AssertionError(f"not found in {CONTROL_STATEMENTS} statements")
