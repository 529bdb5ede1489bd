"""Explanations as text: options, wrapping, and what is left out of PostgreSQL's own."""

import json

import pytest

from pgwire_gateway.session.explanation import (
    WIDTH,
    ExplainOptions,
    Explanation,
    Measured,
    lines,
    without_capture,
)

JOURNAL = {"Trigger Name": "pgwire_update", "Relation": "t", "Calls": 1}
MINE = {"Trigger Name": "mine", "Relation": "t", "Calls": 2}


def explanation(sql: str = "SELECT 1", measured: Measured | None = None) -> Explanation:
    return Explanation("Spark", "spark", "tiered tables", {"Spark SQL": sql}, 1.5, measured)


@pytest.mark.parametrize(
    ("options", "timing", "summary"),
    [
        ({"analyze": True}, True, True),
        ({"analyze": "on", "timing": "OFF"}, False, True),
        ({"analyze": 1, "summary": 0}, True, False),
        ({"summary": True}, False, True),
        ({}, False, False),
    ],
)
def test_timing_and_summary_come_with_analyze(options, timing, summary):
    found = ExplainOptions.of(options)
    assert (found.timing, found.summary) == (timing, summary)


def test_times_are_left_out_where_timing_is_off():
    options = ExplainOptions.of({"analyze": True, "timing": False})
    told = lines(explanation(measured=Measured(1, 2, 3)), options)
    assert told == [
        "spark: tiered tables (actual rows=3.00 loops=1)",
        "  Spark SQL:",
        "    SELECT 1",
        "Planning Time: 1.500 ms",
        "Execution Time: 2.000 ms",
    ]


def test_long_lines_are_broken_between_words():
    constant = "'" + "two  words, " * 20 + "'"
    sql = f"SELECT {constant} AS o1 FROM a AS {'b' * 60} WHERE a.c1 = {'c' * 60}"
    told = lines(explanation(sql), ExplainOptions.of({}))[2:]
    assert " ".join(line.removeprefix("    ") for line in told) == sql
    assert [line for line in told if len(line) > WIDTH + 4] == ["    " + constant]


@pytest.mark.parametrize("triggers", [[JOURNAL], [MINE], [JOURNAL, MINE], [MINE, JOURNAL, MINE]])
def test_triggers_of_the_journal_are_left_out_of_json(triggers):
    document = [{"Plan": {"Filter": "(v = 'pgwire_ {')"}, "Triggers": triggers, "Time": 1}]
    ((answer,),) = without_capture([[json.dumps(document, indent=2).encode()]])
    (found,) = json.loads(answer or b"")
    assert found["Triggers"] == [trigger for trigger in triggers if trigger is MINE]
    assert found["Plan"] == document[0]["Plan"]


def test_triggers_of_the_journal_are_left_out_of_text():
    rows = [
        [b" Trigger pgwire_ of a constant"],
        [b"Trigger pgwire_insert: calls=1"],
        [b"Trigger a"],
    ]
    assert list(without_capture(rows)) == [rows[0], rows[2]]


@pytest.mark.parametrize("rest", ["", "\n  Execution Time: 1"])
def test_triggers_of_the_journal_are_left_out_of_yaml(rest):
    ours = '\n    - Trigger Name: "pgwire_insert"\n      Relation: "t"\n      Calls: 1'
    mine = ours.replace("pgwire_insert", "mine")
    text = '- Plan: \n    Alias: "t"\n  Triggers: {}' + rest
    rows = [[text.format(ours + mine + ours).encode()]]
    assert list(without_capture(rows)) == [[text.format(mine).encode()]]


def test_triggers_of_the_journal_are_left_out_of_xml():
    ours = (
        "\n      <Trigger>\n        <Trigger-Name>pgwire_insert</Trigger-Name>"
        "\n        <Calls>1</Calls>\n      </Trigger>"
    )
    mine = ours.replace("pgwire_insert", "mine")
    text = "<Query>\n    <Triggers>{}\n    </Triggers>\n  </Query>"
    rows = [[text.format(ours + mine + ours).encode()]]
    assert list(without_capture(rows)) == [[text.format(mine).encode()]]
