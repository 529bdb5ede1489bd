"""In how many ways a search that goes back may read one text by a regular expression.

PostgreSQL's automata read a text once. Java tries one way after the other, and where two ways lead
from one state to another over the same characters it tries all that follows twice. Where that
happens in a loop, the number of ways is exponential in the length of the text (Weber and Seidl, "On
the degree of ambiguity of finite automata", 1991; Allauzen, Mohri and Rastogi, "General algorithms
for testing the ambiguity of finite automata", 2008). Where it does not, the number is estimated: a
loop that may be left at any place is left at a thousand.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product
from typing import Final

from rewrite.dialect.position_automata import START, Automaton, TooLargeError, Ways, automaton
from rewrite.dialect.regular_expression_tokens import Token

_MOST_WAYS: Final = 3_000_000
"""As many as there are where two loops may be left at any place, and some more."""
_MOST_CHOICES: Final = 20_000
"""How many ways there may be beside those of loops."""
_PLACES: Final = 1000
_MOST_STEPS: Final = 150_000
"""How many steps of pairs of states are looked at, which takes less than a second."""

Pair = tuple[int, int]


@lru_cache(maxsize=256)
def is_too_ambiguous(tokens: tuple[Token, ...], *, fold: bool = False) -> bool:
    """Tell whether Java might have to try a pattern in more ways than it has time for.

    What is too large to be looked at is taken where it is a mere choice of texts.

    Args:
        tokens: Of the pattern.
        fold: Whether ASCII letters match those of the other case.
    """
    try:
        graph = _Graph(*_trimmed(automaton(tokens, fold=fold)))
        return (
            graph.has_ambiguous_loop()
            or graph.ways(1) > _MOST_CHOICES
            or graph.ways(_PLACES) > _MOST_WAYS
        )
    except TooLargeError:
        kinds = [token.kind for token in tokens]
        return "quantifier" in kinds or kinds.count("open") > 1


def _trimmed(whole: Automaton) -> tuple[list[int], list[Ways]]:
    """Return letters and followers without states from which a search cannot fail any more."""
    safe = {
        state
        for state in range(len(whole.letters))
        if state in whole.accepting or _takes_all(whole, state)
    }
    while True:
        kept = {state for state in safe if safe.issuperset(whole.followers[state])}
        if kept == safe:
            break
        safe = kept
    followers = [
        Counter({follower: ways for follower, ways in found.items() if follower not in safe})
        for found in whole.followers
    ]
    return whole.letters, followers


def _takes_all(whole: Automaton, state: int) -> bool:
    """Tell whether this state reads all that is left of a text, and may end there."""
    others = set(whole.followers[state]) - {state}
    return (
        whole.letters[state] == whole.every_letter
        and state in whole.followers[state]
        and bool(others)
        and all(not whole.letters[other] and other in whole.accepting for other in others)
    )


@dataclass
class _Graph:
    letters: list[int]
    followers: list[Ways]

    @cached_property
    def components(self) -> list[list[int]]:
        """Sets of states that lead to each other, each before those that it leads to."""
        backwards: list[list[int]] = [[] for _ in self.followers]
        for state, followers in enumerate(self.followers):
            for follower in followers:
                backwards[follower].append(state)
        seen: set[int] = set()
        left = _left(START, self.followers, seen)
        found: set[int] = set(range(len(self.letters))) - seen
        return [_left(state, backwards, found) for state in reversed(left) if state not in found]

    @cached_property
    def component(self) -> dict[int, int]:
        """State → number of its component."""
        return {state: number for number, states in enumerate(self.components) for state in states}

    def has_ambiguous_loop(self) -> bool:
        """Tell whether two paths over the same text lead from a state to another and back."""
        place = self.component
        inner = [
            Counter({other: ways for other, ways in found.items() if place[other] == place[state]})
            if state in place
            else Counter[int]()
            for state, found in enumerate(self.followers)
        ]
        if any(ways > 1 for followers in inner for ways in followers.values()):
            return True
        meeting = self._meeting(inner)
        return any(pair in meeting for pair in self._forks(inner))

    def ways(self, places: int) -> float:
        """Estimate on how many paths a text may be read, where no loop is ambiguous.

        Args:
            places: At how many of them a loop is left, where it may be left at any.
        """
        result: dict[int, float] = {}
        for number, states in reversed(list(enumerate(self.components))):
            is_left_anywhere, most = False, 1.0
            for state in states:
                followers = self.followers[state]
                inner = {other for other in followers if self.component[other] == number}
                weights = {
                    other: followers[other] * result[other] for other in followers.keys() - inner
                }
                most = max(most, _heaviest(weights, self._near))
                is_left_anywhere |= any(self._near[other] & followers.keys() for other in inner)
            result.update(dict.fromkeys(states, most * (places if is_left_anywhere else 1)))
        return result[START]

    @cached_property
    def _near(self) -> defaultdict[int, set[int]]:
        """State → those from which the same text leads to the same state as from it."""
        near: defaultdict[int, set[int]] = defaultdict(set)
        for one, other in self._meeting(self.followers):
            near[one].add(other)
            near[other].add(one)
        return near

    def _forks(self, followers: Iterable[Ways]) -> Iterable[Pair]:
        """Return the pairs of states that follow a state by the same character."""
        sets = {tuple(sorted(ways)) for ways in followers}
        if sum(len(states) ** 2 for states in sets) > _MOST_STEPS:
            raise TooLargeError
        for states in sets:
            yield from filter(self._overlap, combinations(states, 2))

    def _overlap(self, pair: Pair) -> bool:
        return bool(self.letters[pair[0]] & self.letters[pair[1]])

    def _meeting(self, followers: Sequence[Ways]) -> set[Pair]:
        """Return the pairs of states that follow a state, and lead to one over the same text."""
        before: defaultdict[Pair, list[Pair]] = defaultdict(list)
        waiting = list(self._forks(followers))
        seen, meeting = set(waiting), set()
        steps = 0
        while waiting:
            pair = waiting.pop()
            steps += len(followers[pair[0]]) * len(followers[pair[1]])
            if steps > _MOST_STEPS:
                raise TooLargeError
            for one, other in product(followers[pair[0]], followers[pair[1]]):
                after = (min(one, other), max(one, other))
                if one == other:
                    meeting.add(pair)
                elif self._overlap(after):
                    before[after].append(pair)
                    if after not in seen:
                        seen.add(after)
                        waiting.append(after)
        return _closure(meeting, before)


def _closure(found: set[Pair], before: Mapping[Pair, list[Pair]]) -> set[Pair]:
    result, waiting = set(found), list(found)
    while waiting:
        more = set(before.get(waiting.pop(), ())) - result
        result |= more
        waiting.extend(more)
    return result


def _heaviest(weights: dict[int, float], near: Mapping[int, set[int]]) -> float:
    """Return the most that states weigh that are all near to one of them, and so on."""
    left, most = set(weights), 0.0
    while left:
        group, waiting = 0.0, [left.pop()]
        while waiting:
            state = waiting.pop()
            group += weights[state]
            more = near[state] & left
            left -= more
            waiting.extend(more)
        most = max(most, group)
    return most


def _left(start: int, followers: Sequence[Iterable[int]], seen: set[int]) -> list[int]:
    """Return the states that are reached and not seen yet, in the order in which they are left."""
    seen.add(start)
    result, path = [], [(start, iter(followers[start]))]
    while path:
        state, rest = path[-1]
        for follower in rest:
            if follower not in seen:
                seen.add(follower)
                path.append((follower, iter(followers[follower])))
                break
        else:
            path.pop()
            result.append(state)
    return result
