"""Sessions that want the same rows: who waits, what whoever waited sees, who fails.

A scenario is a dialogue of sessions. PostgreSQL itself plays it, a resident table, and a tiered
one that has never had hot rows (new), has none now (cold), has others than those fought for
(warm), or has these (hot). All have to say what PostgreSQL says.

How dialogues are written down: `tests.support.scenarios`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import product

import psycopg
import pytest

from tests.support.sampling import crossed
from tests.support.scenarios import expected
from tests.support.servers import Address
from tests.support.theatre import PLAIN, Played, Theatre, once, opened

pytestmark = pytest.mark.server

SCHEMA = "hot_rows_served"

SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, v integer, w text UNIQUE)",
    "INSERT INTO t SELECT g, g * 10, 'w' || g FROM generate_series(1, 6) g",
    # Who defines a table lets its rows go cold.
    "ALTER TABLE t ALTER v DROP DEFAULT",
)

FEW = (
    "CREATE TABLE few (id integer PRIMARY KEY, v integer, w text)",
    "CREATE UNIQUE INDEX few_w ON few (upper(w)) WHERE v > 0",
    "INSERT INTO few SELECT g, g - 3, 'w' || g FROM generate_series(1, 6) g",
    "ALTER TABLE few ALTER v DROP DEFAULT",
)
"""A table besides, where a scenario is about it."""

TIERED = {
    # Rows of a transaction that has written the table as a whole are not hot.
    "new": ("DROP TABLE t", SETUP[0], "BEGIN", "TRUNCATE t", SETUP[1], "COMMIT"),
    "cold": (),
    "warm": ("VACUUM t", "UPDATE t SET v = v WHERE id = 6"),
    "hot": ("UPDATE t SET v = v WHERE id IN (1, 2, 3, 4, 5, 6)",),
}
"""What is done to a table that is tiered before the rows are fought for."""

MERGE = (
    "MERGE INTO t USING (VALUES ({id}, {v})) s (id, v) ON t.id = s.id"
    " WHEN MATCHED AND t.v = 10 THEN UPDATE SET v = s.v"
    " WHEN MATCHED THEN UPDATE SET v = -t.v"
    " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v) RETURNING merge_action(), t.id, t.v"
)

ADD = (
    "INSERT INTO t VALUES ({id}, {v})"
    " ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v RETURNING v"
)

UPSERT = (
    "INSERT INTO t VALUES ({id}, 1, '{w}')"
    " ON CONFLICT (w) DO UPDATE SET v = t.v + 1 RETURNING id, v"
)

FREE = (
    "WITH l AS (SELECT id FROM t WHERE id IN (1, 2) FOR UPDATE SKIP LOCKED)"
    " UPDATE t SET v = 0 FROM l WHERE t.id = l.id AND t.id IN (1, 2) RETURNING t.id"
)

UPSERT_COMPUTED = (
    "INSERT INTO few VALUES ({id}, 1, '{w}')"
    " ON CONFLICT (upper(w)) WHERE v > 0 DO UPDATE SET v = few.v + 10 RETURNING id, v"
)

FIRST = "SELECT id FROM t WHERE v > 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"

QUEUE = (
    "UPDATE t SET v = -1 WHERE id ="
    " (SELECT id FROM t WHERE v > 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)

VIEW = "o: CREATE VIEW few_v AS SELECT id, v FROM t WHERE v < 50 WITH CHECK OPTION"

OLD_AND_NEW = (
    "INSERT INTO t VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1"
    " RETURNING old.v, new.v, old IS NULL"
)

ADD_TO_VIEW = (
    "INSERT INTO few_v VALUES ({id}, {v})"
    " ON CONFLICT (id) DO UPDATE SET v = few_v.v + excluded.v RETURNING id, v"
)

SCENARIOS = {
    "a unique value that somebody is about to bring": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70, 'new')
        b: INSERT INTO t VALUES (8, 80, 'new') -- waits
        c: UPDATE t SET w = 'new' WHERE id = 1 -- waits
        a: COMMIT
        b goes on => error 23505
        c goes on => error 23505
    """,
    "a unique value that somebody is about to give up": """
        a: BEGIN
        a: UPDATE t SET w = 'other' WHERE id = 2
        b: INSERT INTO t VALUES (7, 70, 'w2') -- waits
        c: INSERT INTO t VALUES (8, 80, 'w3') => error 23505
        a: COMMIT
        b goes on => INSERT 0 1
        c: UPDATE t SET w = 'w2' WHERE id = 2 => error 23505
    """,
    "a unique value that is given up and taken back": """
        a: BEGIN
        a: DELETE FROM t WHERE id = 2
        b: UPDATE t SET w = 'w2' WHERE id = 3 -- waits
        a: ROLLBACK
        b goes on => error 23505
    """,
    "an upsert by a unique value": f"""
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 4
        b: {UPSERT.format(id=9, w="w4")} -- waits
        c: {UPSERT.format(id=9, w="w5")} => 5|51
        a: COMMIT
        b goes on => 4|42
    """,
    "upserts of a unique value that is not there": f"""
        a: BEGIN
        a: INSERT INTO t VALUES (7, 1, 'up') ON CONFLICT (w) DO UPDATE SET v = t.v + 1
        b: {UPSERT.format(id=8, w="up")} -- waits
        c: INSERT INTO t VALUES (9, 1, 'up') ON CONFLICT DO NOTHING -- waits
        a: COMMIT
        b goes on => 7|2
        c goes on => INSERT 0 0
    """,
    "a computed unique value that somebody is about to bring": """
        a: BEGIN
        a: UPDATE few SET v = 5, w = 'new' WHERE id = 1
        b: UPDATE few SET w = 'NEW' WHERE id = 4 -- waits
        c: INSERT INTO few VALUES (7, 0, 'new') => INSERT 0 1
        c: UPDATE few SET v = 1 WHERE id = 7 -- waits
        d: INSERT INTO few VALUES (8, 1, 'W5') => error 23505
        a: COMMIT
        b goes on => error 23505
        c goes on => error 23505
    """,
    "a computed unique value that is given up and taken back": """
        a: BEGIN
        a: UPDATE few SET v = -1 WHERE id = 6
        b: INSERT INTO few VALUES (8, 1, 'W6') -- waits
        a: ROLLBACK
        b goes on => error 23505
    """,
    "an upsert by a computed unique value": f"""
        a: BEGIN
        a: UPDATE few SET v = v + 1 WHERE id = 4
        b: {UPSERT_COMPUTED.format(id=9, w="W4")} -- waits
        c: {UPSERT_COMPUTED.format(id=9, w="W5")} => 5|12
        a: COMMIT
        b goes on => 4|12
    """,
    "upserts of a computed unique value that is not there": f"""
        a: BEGIN
        a: INSERT INTO few VALUES (7, 1, 'up')
        b: {UPSERT_COMPUTED.format(id=8, w="UP")} -- waits
        c: INSERT INTO few VALUES (9, 1, 'Up') ON CONFLICT DO NOTHING -- waits
        a: COMMIT
        b goes on => 7|11
        c goes on => INSERT 0 0
    """,
    "a row by a unique value": """
        a: BEGIN
        a: UPDATE t SET w = 'away' WHERE w = 'w1'
        b: DELETE FROM t WHERE w = 'w1' -- waits
        c: SELECT id FROM t WHERE w = 'w2' FOR UPDATE NOWAIT => 2
        a: COMMIT
        b goes on => DELETE 0
    """,
    "the second update of a row goes on from what the first committed": """
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 1
        b: UPDATE t SET v = v * 2 WHERE id = 1 RETURNING v -- waits
        a: COMMIT
        b goes on => 22
    """,
    "and from what was before where that is undone": """
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 1
        b: UPDATE t SET v = v * 2 WHERE id = 1 RETURNING v -- waits
        a: ROLLBACK
        b goes on => 20
    """,
    "writers of different rows do not wait": """
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 1 => UPDATE 1
        b: BEGIN
        b: UPDATE t SET v = v + 1 WHERE id = 2 => UPDATE 1
        b: DELETE FROM t WHERE id = 3 => DELETE 1
        b: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        c: INSERT INTO t VALUES (8, 80) ON CONFLICT (id) DO UPDATE SET v = 0 => INSERT 0 1
        a: UPDATE t SET v = v + 1 WHERE id IN (4, 5) => UPDATE 2
        b: COMMIT
        a: COMMIT
    """,
    "a definition that waits between two writes of rows that are cold": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        b: ALTER TABLE t ADD COLUMN z integer DEFAULT 5 -- waits
        a: UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v => 21
        a: INSERT INTO t VALUES (7, 70, 'w7')
        a: DELETE FROM t WHERE id = 4 => DELETE 1
        a: COMMIT
        b goes on => ALTER TABLE
        c: UPDATE t SET z = z + 1 WHERE id = 1 RETURNING id, v, z => 1|11|6
        c: UPDATE t SET z = z + 2 WHERE id = 7 RETURNING id, v, z => 7|70|7
    """,
    "a first insert keeps nobody from other rows": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        b: INSERT INTO t VALUES (8, 80) => INSERT 0 1
        b: UPDATE t SET v = 0 WHERE id = 1 => UPDATE 1
        b: SELECT v FROM t WHERE id = 2 FOR UPDATE => 20
        a: COMMIT
    """,
    "inserts of rows that are read, and of many, keep nobody from other rows": """
        a: BEGIN
        a: INSERT INTO t SELECT g, g * 10 FROM generate_series(7, 9) g => INSERT 0 3
        a: INSERT INTO t SELECT g, 0 FROM generate_series(100, 700) g => INSERT 0 601
        b: INSERT INTO t SELECT g, g * 10 FROM generate_series(10, 12) g => INSERT 0 3
        b: UPDATE t SET v = 0 WHERE id = 1 => UPDATE 1
        c: INSERT INTO t SELECT g, 0 FROM generate_series(8, 11) g -- waits
        a: ROLLBACK
        c goes on => error 23505
        c: INSERT INTO t SELECT g, 0 FROM generate_series(1, 4) g => error 23505
        c: INSERT INTO t SELECT g, 0 FROM generate_series(7, 8) g => INSERT 0 2
    """,
    "an insert that is a transaction of its own waits for no other": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        b: INSERT INTO t VALUES (8, 80), (9, 90) => INSERT 0 2
        c: INSERT INTO t SELECT 10, 100 => INSERT 0 1
        d: INSERT INTO t VALUES (7, 0) -- waits
        a: COMMIT
        d goes on => error 23505
    """,
    "COPY of few rows keeps nobody from other rows": """
        a: BEGIN
        a: COPY t FROM STDIN (FORMAT csv, DELIMITER '|') << 7|70|x, 8|80|y => COPY 2
        b: COPY t (id, v) FROM STDIN (FORMAT csv, DELIMITER '|') << 9|90, 10|100 => COPY 2
        b: UPDATE t SET v = 0 WHERE id IN (1, 9) => UPDATE 2
        c: COPY t FROM STDIN (FORMAT csv, DELIMITER '|') << 11|0|e, 7|0|f -- waits
        d: COPY t FROM STDIN (FORMAT csv, DELIMITER '|') << 12|0|g, 2|0|h => error 23505
        d: INSERT INTO t VALUES (12, 120) => INSERT 0 1
        a: COMMIT
        c goes on => error 23505
        c: COPY t FROM STDIN (FORMAT csv, DELIMITER '|') << 11|0|e, => COPY 1
        c: COPY t FROM STDIN (FORMAT csv, DELIMITER '|') << 13|x|x => error 22P02
    """,
    "a condition that does not hold after waiting": """
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id IN (1, 2)
        b: UPDATE t SET v = 0 WHERE id = 1 AND v = 10 -- waits
        c: DELETE FROM t WHERE id = 2 AND v = 20 -- waits
        a: COMMIT
        b goes on => UPDATE 0
        c goes on => DELETE 0
    """,
    "a condition that would hold only afterwards": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        b: UPDATE t SET v = 0 WHERE id = 1 AND v = 11 => UPDATE 0
        a: COMMIT
        b: UPDATE t SET v = 0 WHERE id = 1 AND v = 11 => UPDATE 1
    """,
    "conditions without keys": """
        a: BEGIN
        a: UPDATE t SET v = 21 WHERE id = 2
        b: UPDATE t SET w = 'b' WHERE v = 10 => UPDATE 1
        b: UPDATE t SET w = 'b' WHERE v = 20 -- waits
        a: COMMIT
        b goes on => UPDATE 0
        b: DELETE FROM t WHERE v = 21 => DELETE 1
    """,
    "conditions without keys lock no other rows": """
        a: BEGIN
        a: UPDATE t SET w = 'a' WHERE v = 10 => UPDATE 1
        b: UPDATE t SET v = 21 WHERE id = 2 => UPDATE 1
        c: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v, w -- waits
        b: BEGIN
        b: DELETE FROM t WHERE v BETWEEN 30 AND 40 => DELETE 2
        a: UPDATE t SET w = 'a' || id WHERE v > 40 => UPDATE 2
        b: INSERT INTO t VALUES (7, 30, 'b') => INSERT 0 1
        d: DELETE FROM t WHERE v = 60 -- waits
        a: COMMIT
        c goes on => 11|a
        d goes on => DELETE 1
        b: COMMIT
    """,
    "a first deletion by a condition that is undone": """
        a: BEGIN
        a: SAVEPOINT s
        a: DELETE FROM t WHERE v < 30 => DELETE 2
        b: UPDATE t SET v = v + 1 WHERE id = 3 RETURNING v => 31
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v -- waits
        a: ROLLBACK TO s
        b goes on => 11
        a: DELETE FROM t WHERE v < 20 RETURNING id, v => 1|11
        a: COMMIT
    """,
    "an update of a row that another deletes": """
        a: BEGIN
        a: DELETE FROM t WHERE id IN (1, 2) => DELETE 2
        b: UPDATE t SET v = 0 WHERE id = 1 -- waits
        c: DELETE FROM t WHERE id = 2 -- waits
        a: COMMIT
        b goes on => UPDATE 0
        c goes on => DELETE 0
    """,
    "an update of a row that another keeps after all": """
        a: BEGIN
        a: DELETE FROM t WHERE id IN (1, 2) => DELETE 2
        b: UPDATE t SET v = 0 WHERE id = 1 -- waits
        c: DELETE FROM t WHERE id = 2 -- waits
        a: ROLLBACK
        b goes on => UPDATE 1
        c goes on => DELETE 1
    """,
    "of two inserts of a key the second fails": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        b: INSERT INTO t VALUES (7, 77) -- waits
        a: COMMIT
        b goes on => error 23505
    """,
    "or succeeds when the first is undone": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        b: INSERT INTO t VALUES (7, 77) -- waits
        a: ROLLBACK
        b goes on => INSERT 0 1
    """,
    "an insert of a key that is there": """
        a: INSERT INTO t VALUES (1, 0) => error 23505
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70), (2, 0) => error 23505
        a: ROLLBACK
        a: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        b: INSERT INTO t VALUES (7, 0) => error 23505
        b: INSERT INTO t VALUES (3, 0) ON CONFLICT DO NOTHING => INSERT 0 0
        b: INSERT INTO t VALUES (3, 0) ON CONFLICT (id) DO UPDATE SET v = 0 => INSERT 0 1
    """,
    "an insert of a key whose row another deletes": """
        a: BEGIN
        a: DELETE FROM t WHERE id = 1
        b: INSERT INTO t VALUES (1, 0) -- waits
        a: COMMIT
        b goes on => INSERT 0 1
    """,
    "an insert of a key whose row another keeps after all": """
        a: BEGIN
        a: DELETE FROM t WHERE id = 1
        b: INSERT INTO t VALUES (1, 0) -- waits
        a: ROLLBACK
        b goes on => error 23505
    """,
    "ON CONFLICT DO UPDATE behind an insert": f"""
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        b: {ADD.format(id=7, v=1)} -- waits
        a: COMMIT
        b goes on => 71
        a: BEGIN
        a: INSERT INTO t VALUES (8, 80)
        b: {ADD.format(id=8, v=1)} -- waits
        a: ROLLBACK
        b goes on => 1
    """,
    "ON CONFLICT DO NOTHING behind an insert": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        b: INSERT INTO t VALUES (7, 1) ON CONFLICT DO NOTHING -- waits
        a: COMMIT
        b goes on => INSERT 0 0
        a: BEGIN
        a: INSERT INTO t VALUES (8, 80)
        b: INSERT INTO t VALUES (8, 1) ON CONFLICT DO NOTHING -- waits
        a: ROLLBACK
        b goes on => INSERT 0 1
    """,
    "ON CONFLICT behind an update and a deletion": f"""
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 1
        a: DELETE FROM t WHERE id = 2
        b: {ADD.format(id=1, v=5)} -- waits
        c: {ADD.format(id=2, v=5)} -- waits
        a: COMMIT
        b goes on => 16
        c goes on => 5
    """,
    "two upserts of a key": f"""
        a: BEGIN
        a: {ADD.format(id=7, v=1)} => 1
        b: {ADD.format(id=7, v=1)} -- waits
        a: {ADD.format(id=7, v=1)} => 2
        a: COMMIT
        b goes on => 3
    """,
    "MERGE behind an insert": f"""
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        b: {MERGE.format(id=7, v=5)} -- waits
        a: COMMIT
        b goes on => error 23505
        b: {MERGE.format(id=7, v=5)} => UPDATE|7|-70
    """,
    "MERGE behind an update and a deletion": f"""
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 1
        a: DELETE FROM t WHERE id = 2
        b: {MERGE.format(id=1, v=5)} -- waits
        c: {MERGE.format(id=2, v=5)} -- waits
        a: COMMIT
        b goes on => UPDATE|1|-11
        c goes on => INSERT|2|5
    """,
    "an insert of the key that another row is to have": """
        a: BEGIN
        a: UPDATE t SET id = 7 WHERE id = 1
        b: INSERT INTO t VALUES (7, 0) -- waits
        c: INSERT INTO t VALUES (1, 0) -- waits
        a: COMMIT
        b goes on => error 23505
        c goes on => INSERT 0 1
    """,
    "and does not get after all": """
        a: BEGIN
        a: UPDATE t SET id = 7 WHERE id = 1
        b: INSERT INTO t VALUES (7, 0) -- waits
        c: INSERT INTO t VALUES (1, 0) -- waits
        a: ROLLBACK
        b goes on => INSERT 0 1
        c goes on => error 23505
    """,
    "a change of a key behind an insert": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 0)
        b: UPDATE t SET id = 7 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => error 23505
    """,
    "an update of a row that changes its key": """
        a: BEGIN
        a: UPDATE t SET id = 7 WHERE id = 1
        b: UPDATE t SET v = 0 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => UPDATE 0
        b: UPDATE t SET v = 0 WHERE id = 7 => UPDATE 1
    """,
    "keys that change places": """
        a: BEGIN
        a: UPDATE t SET id = 0 WHERE id = 1
        a: UPDATE t SET id = 1 WHERE id = 2
        a: UPDATE t SET id = 2 WHERE id = 0
        b: UPDATE t SET v = v + 1 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => UPDATE 0
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 21
    """,
    "FOR UPDATE waits for who has the row": """
        a: BEGIN
        a: SELECT v FROM t WHERE id = 1 FOR UPDATE => 10
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE -- waits
        c: SELECT v FROM t WHERE id = 2 FOR UPDATE => 20
        d: SELECT v FROM t WHERE id = 1 => 10
        a: UPDATE t SET v = 11 WHERE id = 1
        a: COMMIT
        b goes on => 11
    """,
    "FOR UPDATE of what has gone, or does not hold any more": """
        a: BEGIN
        a: DELETE FROM t WHERE id = 1
        a: UPDATE t SET v = 0 WHERE id = 2
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE -- waits
        c: SELECT v FROM t WHERE id = 2 AND v = 20 FOR UPDATE -- waits
        a: COMMIT
        b goes on => no rows
        c goes on => no rows
    """,
    "writers wait for who has read for update": """
        a: BEGIN
        a: SELECT id FROM t WHERE id IN (1, 2) ORDER BY id FOR UPDATE => 1, 2
        b: UPDATE t SET v = 0 WHERE id = 1 -- waits
        c: DELETE FROM t WHERE id = 2 -- waits
        d: UPDATE t SET v = 0 WHERE id = 3 => UPDATE 1
        a: ROLLBACK
        b goes on => UPDATE 1
        c goes on => DELETE 1
    """,
    "NOWAIT and SKIP LOCKED": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 1
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT => error 55P03
        b: SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT => 20
        b: SELECT v FROM t WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE SKIP LOCKED => 20, 30
        b: SELECT v FROM t WHERE id = 1 FOR SHARE SKIP LOCKED => no rows
        b: SELECT v FROM t WHERE id = 1 FOR KEY SHARE NOWAIT => 10
        a: COMMIT
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT => 0
    """,
    "rows of nobody are locked by nobody": """
        a: BEGIN
        a: SELECT v FROM t WHERE id = 7 FOR UPDATE => no rows
        b: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        a: SELECT v FROM t WHERE id = 7 FOR UPDATE => 70
        a: COMMIT
    """,
    "many may share a row": """
        a: BEGIN
        a: SELECT v FROM t WHERE id = 1 FOR SHARE => 10
        b: BEGIN
        b: SELECT v FROM t WHERE id = 1 FOR SHARE => 10
        c: SELECT v FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED => no rows
        c: UPDATE t SET v = 0 WHERE id = 1 -- waits
        a: COMMIT
        b: COMMIT
        c goes on => UPDATE 1
    """,
    "FOR KEY SHARE keeps the key only": """
        a: BEGIN
        a: SELECT v FROM t WHERE id IN (1, 2) ORDER BY id FOR KEY SHARE => 10, 20
        b: UPDATE t SET v = 0 WHERE id = 1 => UPDATE 1
        b: SELECT v FROM t WHERE id = 1 FOR NO KEY UPDATE => 0
        b: DELETE FROM t WHERE id = 1 -- waits
        c: UPDATE t SET id = 7 WHERE id = 2 -- waits
        a: COMMIT
        b goes on => DELETE 1
        c goes on => UPDATE 1
    """,
    "a queue gives each its own row": f"""
        a: BEGIN
        a: {QUEUE} => 1
        b: BEGIN
        b: {QUEUE} => 2
        a: {QUEUE} => 3
        a: ROLLBACK
        b: {QUEUE} => 1
        b: COMMIT
        a: {QUEUE} => 3
    """,
    "WITH that writes": f"""
        a: BEGIN
        a: WITH c AS (UPDATE t SET v = v + 1 WHERE id = 1 RETURNING id, v) SELECT * FROM c => 1|11
        b: WITH c AS (DELETE FROM t WHERE id = 1 RETURNING id, v) SELECT * FROM c -- waits
        c: {FREE} => 2
        a: COMMIT
        b goes on => 1|11
    """,
    "two sessions wait for each other": """
        a: BEGIN
        b: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id = 1
        b: UPDATE t SET v = v + 1 WHERE id = 2
        a: UPDATE t SET v = v + 1 WHERE id = 2 -- waits
        b: UPDATE t SET v = v + 1 WHERE id = 1 -- waits
        a or b goes on => error 40P01
        a and b: COMMIT => COMMIT, ROLLBACK
    """,
    "lock_timeout ends the wait": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 1
        a: DELETE FROM t WHERE id = 2
        a: INSERT INTO t VALUES (7, 70)
        b: SET lock_timeout = '100ms'
        b: UPDATE t SET v = 1 WHERE id = 1 => error 55P03
        b: SELECT v FROM t WHERE id = 2 FOR SHARE => error 55P03
        b: INSERT INTO t VALUES (7, 77) => error 55P03
        b: SET lock_timeout = 0
        b: UPDATE t SET v = 1 WHERE id = 3 => UPDATE 1
        a: COMMIT
        b: UPDATE t SET v = 1 WHERE id = 1 => UPDATE 1
    """,
    "definitions that lock nothing wait for no writer": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 1
        b: SET lock_timeout = '5s'
        b: GRANT SELECT ON t TO PUBLIC => GRANT
        b: COMMENT ON TABLE t IS 'a comment' => COMMENT
        b: COMMENT ON COLUMN t.v IS 'another' => COMMENT
        b: REVOKE SELECT ON t FROM PUBLIC => REVOKE
        a: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 1
        a: COMMIT
        b: COMMENT ON TABLE t IS NULL => COMMENT
    """,
    "statement_timeout ends the wait": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 1
        b: SET statement_timeout = '300ms'
        b: UPDATE t SET v = 1 WHERE id = 1 => error 57014
        b: SET statement_timeout = 0
        b: UPDATE t SET v = 1 WHERE id = 2 => UPDATE 1
        a: COMMIT
    """,
    "a cancel request ends the wait": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 1
        b: BEGIN
        b: UPDATE t SET v = 2 WHERE id = 2
        b: UPDATE t SET v = 1 WHERE id = 1 -- waits
        a: cancels b
        b goes on => error 57014
        b: UPDATE t SET v = 1 WHERE id = 3 => error 25P02
        c: UPDATE t SET v = 3 WHERE id = 2 => UPDATE 1
        b: ROLLBACK
        a: COMMIT
    """,
    "ROLLBACK TO frees rows": """
        a: BEGIN
        a: UPDATE t SET v = 1 WHERE id = 1
        a: SAVEPOINT s
        a: UPDATE t SET v = 2 WHERE id = 2
        a: INSERT INTO t VALUES (7, 70)
        b: UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v -- waits
        c: INSERT INTO t VALUES (7, 77) -- waits
        a: ROLLBACK TO s
        b goes on => 21
        c goes on => INSERT 0 1
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v -- waits
        a: COMMIT
        b goes on => 2
    """,
    "a savepoint begun before the first write": """
        a: BEGIN
        a: SAVEPOINT s
        a: UPDATE t SET v = 1 WHERE id = 1
        a: ROLLBACK TO s
        b: UPDATE t SET v = 2 WHERE id = 1 => UPDATE 1
        a: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 3
        a: COMMIT
    """,
    "an error that a savepoint outlives": """
        a: BEGIN
        a: UPDATE t SET v = 1 WHERE id = 1
        a: SAVEPOINT s
        a: INSERT INTO t VALUES (2, 0) => error 23505
        a: ROLLBACK TO s
        a: UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v => 21
        b: UPDATE t SET v = 5 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => UPDATE 1
    """,
    "a row comes, goes, and comes again": """
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        a: DELETE FROM t WHERE id = 7 => DELETE 1
        a: INSERT INTO t VALUES (7, 71)
        a: UPDATE t SET v = v + 1 WHERE id = 7 RETURNING v => 72
        a: DELETE FROM t WHERE id = 1
        a: INSERT INTO t VALUES (1, 11)
        b: INSERT INTO t VALUES (7, 0) -- waits
        c: UPDATE t SET v = 0 WHERE id = 1 -- waits
        a: SELECT id, v FROM t WHERE id IN (1, 7) ORDER BY id => 1|11, 7|72
        a: COMMIT
        b goes on => error 23505
        c goes on => UPDATE 0
    """,
    "LOCK TABLE keeps writers away": """
        a: BEGIN
        a: LOCK TABLE t IN EXCLUSIVE MODE
        b: SELECT v FROM t WHERE id = 1 => 10
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v -- waits
        c: SELECT v FROM t WHERE id = 2 FOR UPDATE -- waits
        a: UPDATE t SET v = 11 WHERE id = 1
        a: COMMIT
        b goes on => 12
        c goes on => 20
    """,
    "LOCK TABLE waits for writers": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        b: BEGIN
        b: LOCK TABLE t IN SHARE MODE NOWAIT => error 55P03
        b: ROLLBACK
        b: BEGIN
        b: LOCK TABLE t IN EXCLUSIVE MODE -- waits
        c: SELECT v FROM t WHERE id = 1 => 10
        a: UPDATE t SET v = 12 WHERE id = 2
        a: COMMIT
        b goes on => LOCK TABLE
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 12
        c: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v -- waits
        b: COMMIT
        c goes on => 13
    """,
    "TRUNCATE waits for writers, and they for it": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        b: BEGIN
        b: TRUNCATE t -- waits
        a: COMMIT
        b goes on => TRUNCATE TABLE
        c: INSERT INTO t VALUES (1, 0) -- waits
        b: COMMIT
        c goes on => INSERT 0 1
    """,
    "TRUNCATE … CASCADE reaches what comes to reference the table while it waits": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        a: CREATE TABLE child (id integer PRIMARY KEY, t integer REFERENCES t)
        a: INSERT INTO child VALUES (1, 1), (2, 6)
        b: TRUNCATE t CASCADE -- waits
        a: COMMIT
        b goes on => TRUNCATE TABLE
        c: SELECT count(*) FROM child => 0
        c: INSERT INTO child VALUES (1, 1) => error 23503
        c: INSERT INTO t VALUES (1, 0) => INSERT 0 1
        c: INSERT INTO child VALUES (1, 1) => INSERT 0 1
    """,
    "a transaction reads what it wrote, and not what others have not committed": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        a: DELETE FROM t WHERE id = 2
        a: INSERT INTO t VALUES (7, 70)
        b: BEGIN
        b: UPDATE t SET v = 33 WHERE id = 3
        a: SELECT id, v FROM t ORDER BY id => 1|11, 3|30, 4|40, 5|50, 6|60, 7|70
        b: SELECT id, v FROM t ORDER BY id => 1|10, 2|20, 3|33, 4|40, 5|50, 6|60
        a: COMMIT
        b: SELECT id, v FROM t WHERE id < 4 ORDER BY id => 1|11, 3|33
        b: ROLLBACK
    """,
    "old and new values after waiting": """
        a: BEGIN
        a: UPDATE t SET v = v + 1 WHERE id IN (1, 2)
        b: UPDATE t SET v = v * 2 WHERE id = 1 RETURNING old.v, new.v, v -- waits
        c: DELETE FROM t WHERE id = 2 RETURNING old.v, new.v, v -- waits
        a: COMMIT
        b goes on => 11|22|22
        c goes on => 21|None|21
    """,
    "old and new values of an upsert behind an insert": f"""
        a: BEGIN
        a: INSERT INTO t VALUES (7, 70)
        b: {OLD_AND_NEW.format(id=7)} -- waits
        a: COMMIT
        b goes on => 70|71|False
        b: {OLD_AND_NEW.format(id=8)} => None|1|True
    """,
    "a condition on the clock": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        a: UPDATE t SET v = 21 WHERE id = 2
        b: UPDATE t SET v = 0 WHERE id = 1 AND clock_timestamp() > now() RETURNING id -- waits
        c: DELETE FROM t WHERE id = 2 AND clock_timestamp() < now() + interval '9 s' -- waits
        a: SELECT 'slept' FROM pg_sleep(9) => slept
        a: COMMIT
        b goes on => 1
        c goes on => DELETE 0
    """,
    "a table that is locked is written by conditions": """
        a: BEGIN
        a: LOCK TABLE t IN EXCLUSIVE MODE
        a: UPDATE t SET v = v + 1 WHERE v < 30 RETURNING id => 1, 2
        b: UPDATE t SET v = 0 WHERE id = 3 -- waits
        c: SELECT v FROM t WHERE id = 1 => 10
        a: COMMIT
        b goes on => UPDATE 1
        c: SELECT v FROM t WHERE id = 1 => 11
    """,
    "through a view: writers wait": f"""
        {VIEW}
        a: BEGIN
        a: UPDATE few_v SET v = v + 1 WHERE id = 1 RETURNING v => 11
        b: UPDATE few_v SET v = v * 2 WHERE id = 1 RETURNING id, v -- waits
        c: UPDATE few_v SET v = v + 1 WHERE id = 2 RETURNING v => 21
        c: DELETE FROM few_v WHERE id = 5 => DELETE 0
        a: COMMIT
        b goes on => 1|22
        c: UPDATE few_v SET v = 50 WHERE id = 3 => error 44000
    """,
    "through a view: a row that leaves it meanwhile": f"""
        {VIEW}
        a: BEGIN
        a: UPDATE t SET v = v + 100 WHERE id IN (1, 2)
        b: UPDATE few_v SET v = 0 WHERE id = 1 -- waits
        c: DELETE FROM few_v WHERE id = 2 -- waits
        d: SELECT v FROM few_v WHERE id = 1 FOR UPDATE -- waits
        a: COMMIT
        b goes on => UPDATE 0
        c goes on => DELETE 0
        d goes on => no rows
        d: INSERT INTO few_v VALUES (5, 1) => error 23505
    """,
    "through a view: a value that is too large after waiting": f"""
        {VIEW}
        a: BEGIN
        a: UPDATE t SET v = 45 WHERE id IN (1, 2)
        b: UPDATE few_v SET v = v + 10 WHERE id = 1 -- waits
        c: UPDATE few_v SET v = v + 4 WHERE id = 2 RETURNING v -- waits
        a: COMMIT
        b goes on => error 44000
        c goes on => 49
    """,
    "through a view: upserts": f"""
        {VIEW}
        a: BEGIN
        a: UPDATE t SET v = 48 WHERE id IN (1, 2)
        a: INSERT INTO few_v VALUES (7, 7)
        b: {ADD_TO_VIEW.format(id=1, v=3)} -- waits
        c: {ADD_TO_VIEW.format(id=2, v=1)} -- waits
        d: {ADD_TO_VIEW.format(id=7, v=3)} -- waits
        a: COMMIT
        b goes on => error 44000
        c goes on => 2|49
        d goes on => 7|10
        d: INSERT INTO few_v VALUES (8, 99) ON CONFLICT DO NOTHING => error 44000
    """,
    "through a view: locks": f"""
        {VIEW}
        a: BEGIN
        a: SELECT v FROM few_v WHERE id = 1 FOR UPDATE => 10
        b: SELECT v FROM few_v WHERE id = 1 FOR UPDATE NOWAIT => error 55P03
        b: SELECT id FROM few_v WHERE id < 4 ORDER BY id FOR UPDATE SKIP LOCKED => 2, 3
        c: UPDATE t SET v = 60 WHERE id = 1 -- waits
        a: UPDATE few_v SET v = v + 1 WHERE id = 1 RETURNING v => 11
        a: COMMIT
        c goes on => UPDATE 1
        b: SELECT id FROM few_v ORDER BY id FOR UPDATE SKIP LOCKED => 2, 3, 4
    """,
    "through a view: rows by a condition": f"""
        {VIEW}
        a: BEGIN
        a: UPDATE few_v SET v = v + 1 WHERE v > 30 RETURNING id => 4
        b: UPDATE few_v SET v = v + 1 WHERE v > 20 AND v < 40 RETURNING id => 3
        c: UPDATE t SET v = 99 WHERE id = 4 -- waits
        d: DELETE FROM few_v WHERE v = 40 -- waits
        a: COMMIT
        c goes on => UPDATE 1
        d goes on => DELETE 0
    """,
    "one snapshot: writers of different rows": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT sum(v) FROM t => 210, 210
        a: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 11
        b: UPDATE t SET v = v + 2 WHERE id = 2 RETURNING v => 22
        a: DELETE FROM t WHERE id = 3 => DELETE 1
        b: INSERT INTO t VALUES (7, 70, 'w7') => INSERT 0 1
        a: SELECT id, v FROM t ORDER BY id => 1|11, 2|20, 4|40, 5|50, 6|60
        b: SELECT id, v FROM t ORDER BY id => 1|10, 2|22, 3|30, 4|40, 5|50, 6|60, 7|70
        c: SELECT sum(v) FROM t => 210
        a: COMMIT
        b: UPDATE t SET v = v + 2 WHERE id = 2 RETURNING v => 24
        b: SELECT id, v FROM t WHERE id < 4 ORDER BY id => 1|10, 2|24, 3|30
        b: COMMIT
        a: SELECT id, v FROM t ORDER BY id => 1|11, 2|24, 4|40, 5|50, 6|60, 7|70
    """,
    "one snapshot: two want one row": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT v FROM t WHERE id = 1 => 10, 10
        a: UPDATE t SET v = v + 1 WHERE id = 1
        b: UPDATE t SET v = v + 1 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => error 40001
        b: ROLLBACK
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 12
        b: COMMIT
    """,
    "one snapshot: two want one row, which is not changed after all": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT v FROM t WHERE id = 1 => 10, 10
        a: DELETE FROM t WHERE id = 1
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v -- waits
        a: ROLLBACK
        b goes on => 11
        b: COMMIT
    """,
    "one snapshot: a writer that has none waits for a row, not for others": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT v FROM t WHERE id = 6 => 60
        a: UPDATE t SET v = v + 1 WHERE id = 6 RETURNING v => 61
        c: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 11
        b: UPDATE t SET v = v * 2 WHERE id = 6 RETURNING v -- waits
        a: COMMIT
        b goes on => 122
    """,
    "one snapshot: what has changed since, and what has not": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM t => 6
        b: UPDATE t SET v = 0 WHERE id = 1
        b: DELETE FROM t WHERE id = 2
        b: INSERT INTO t VALUES (7, 70, 'w7'), (8, 80, 'w8')
        a: UPDATE t SET v = v + 1 WHERE id IN (3, 7) RETURNING id, v => 3|31
        a: SAVEPOINT s
        a: UPDATE t SET v = v + 1 WHERE id = 1 => error 40001
        a: ROLLBACK TO s
        a: DELETE FROM t WHERE id = 2 => error 40001
        a: ROLLBACK TO s
        a: SELECT v FROM t WHERE id = 2 FOR UPDATE => error 40001
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (7, 71, 'x') ON CONFLICT (id) DO UPDATE SET v = 1 => error 40001
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (8, 71, 'x') ON CONFLICT DO NOTHING => error 40001
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (7, 71, 'x') => error 23505
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (9, 90, 'w8') => error 23505
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (4, 90, 'x') => error 23505
        a: ROLLBACK TO s
        a: UPDATE t SET v = v + 1 WHERE id = 5 RETURNING v => 51
        a: SELECT id, v FROM t ORDER BY id => 1|10, 2|20, 3|31, 4|40, 5|51, 6|60
        a: COMMIT
        a: SELECT id, v FROM t ORDER BY id => 1|0, 3|31, 4|40, 5|51, 6|60, 7|70, 8|80
    """,
    "one snapshot: upserts": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: INSERT INTO t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET v = t.v + 5 RETURNING v => 15
        b: INSERT INTO t VALUES (9, 5, 'w2') ON CONFLICT (w) DO UPDATE SET v = 25 RETURNING id => 2
        a: INSERT INTO t VALUES (3, 0) ON CONFLICT DO NOTHING RETURNING id => no rows
        a: INSERT INTO t VALUES (7, 70) ON CONFLICT DO NOTHING RETURNING id => 7
        b: INSERT INTO t VALUES (7, 71) ON CONFLICT (id) DO UPDATE SET v = 0 -- waits
        a: COMMIT
        b goes on => error 40001
        b: ROLLBACK
    """,
    "one snapshot: rows by a condition": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: UPDATE t SET v = v + 1 WHERE v <= 20 => UPDATE 2
        b: DELETE FROM t WHERE w IN ('w3', 'w4') => DELETE 2
        c: INSERT INTO t VALUES (7, 5, 'w7')
        a: UPDATE t SET v = v + 1 WHERE v < 30 => UPDATE 2
        b: SELECT id, v FROM t ORDER BY id => 1|10, 2|20, 5|50, 6|60
        a: COMMIT
        b: UPDATE t SET v = 0 WHERE v = 10 => error 40001
        b: ROLLBACK
        b: SELECT id, v FROM t ORDER BY id => 1|12, 2|22, 3|30, 4|40, 5|50, 6|60, 7|5
    """,
    "one snapshot: savepoints": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: SAVEPOINT s
        a: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 11
        b: UPDATE t SET v = v + 2 WHERE id = 1 RETURNING v -- waits
        a: ROLLBACK TO s
        b goes on => 12
        a: SELECT v FROM t WHERE id = 1 => 10
        a: UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v => 21
        a: SAVEPOINT s
        a: UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v => 22
        a: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        a: ROLLBACK TO s
        a: INSERT INTO t VALUES (7, 71) => INSERT 0 1
        a: UPDATE t SET v = v + 1 WHERE id = 7 RETURNING v => 72
        a: SELECT id, v FROM t WHERE id IN (1, 2, 7) ORDER BY id => 1|10, 2|21, 7|72
        b: COMMIT
        a: COMMIT
        a: SELECT id, v FROM t WHERE id IN (1, 2, 7) ORDER BY id => 1|12, 2|21, 7|72
    """,
    "one snapshot: keys and values that change": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: UPDATE t SET id = 7 WHERE id = 1 => UPDATE 1
        a: UPDATE t SET id = 1, w = 'w1' WHERE id = 2 => error 23505
        a: ROLLBACK
        b: UPDATE t SET id = 8, w = 'w8' WHERE id = 3 => UPDATE 1
        b: INSERT INTO t VALUES (3, 33, 'w3') => INSERT 0 1
        b: SELECT id, v, w FROM t WHERE id IN (3, 8) ORDER BY id => 3|33|w3, 8|30|w8
        b: DELETE FROM t WHERE id = 3 => DELETE 1
        b: INSERT INTO t VALUES (9, 33, 'w4') => error 23505
        b: ROLLBACK
        b: SELECT id, v, w FROM t WHERE id IN (1, 3, 7, 8) ORDER BY id => 1|10|w1, 3|30|w3
    """,
    "one snapshot: locks": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: SELECT v FROM t WHERE id = 1 FOR UPDATE => 10
        b: SELECT v FROM t WHERE id = 2 FOR UPDATE => 20
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE -- waits
        a: ROLLBACK
        b goes on => 10
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 11
        b: COMMIT
    """,
    "one snapshot: NOWAIT and SKIP LOCKED": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: UPDATE t SET v = 0 WHERE id = 1
        b: SAVEPOINT s
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT => error 55P03
        b: ROLLBACK TO s
        b: SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT => 20
        b: SELECT v FROM t WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE SKIP LOCKED => 20, 30
        a: SELECT id FROM t WHERE v > 10 AND v < 60 ORDER BY id FOR SHARE SKIP LOCKED => 4, 5
        c: UPDATE t SET v = 0 WHERE id = 6 => UPDATE 1
        b: SELECT id FROM t WHERE id = 6 FOR UPDATE SKIP LOCKED => error 40001
        b: ROLLBACK TO s
        a: SELECT v FROM t WHERE id = 3 FOR UPDATE NOWAIT => 30
        a: ROLLBACK
        b: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT => 10
        b: COMMIT
    """,
    "one snapshot: a queue": f"""
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: {FIRST} => 1
        b: {FIRST} => 2
        a: UPDATE t SET v = -1 WHERE id = 1
        b: UPDATE t SET v = -1 WHERE id = 2
        a: {FIRST} => 3
        b: {FIRST} => 4
        a: COMMIT
        b: {FIRST} => error 40001
        b: ROLLBACK
        c: SET default_transaction_isolation = 'repeatable read'
        c: {FIRST} => 2
    """,
    "one snapshot: many rows after single ones": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT count(*) FROM t => 6
        a: UPDATE t SET v = v + 1 WHERE id = 1
        a: INSERT INTO t SELECT g, g FROM generate_series(1001, 3000) g => INSERT 0 2000
        a: COPY t FROM STDIN (FORMAT csv) << 7,70,w7
        a: UPDATE t SET v = v + 1 WHERE v >= 0 => UPDATE 2007
        a: SELECT count(*), sum(v) FROM t => 2007|4003288
        a: COMMIT
        a: DELETE FROM t WHERE id > 1000 => DELETE 2000
    """,
    "one snapshot: single rows and then all": """
        b: UPDATE t SET v = v WHERE id = 6
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: UPDATE t SET v = v + 1 WHERE id = 1
        a: UPDATE t SET v = v + 1 WHERE id = 6
        a: TRUNCATE t
        a: INSERT INTO t VALUES (1, 1) => INSERT 0 1
        a: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v => 2
        a: COMMIT
    """,
    "one snapshot: statements that are transactions": """
        a: SET default_transaction_isolation = 'repeatable read'
        a: UPDATE t SET v = v + 1 WHERE id = 1 => UPDATE 1
        a: INSERT INTO t VALUES (8, 8) => INSERT 0 1
        a: DELETE FROM t WHERE v = 20 => DELETE 1
        a: INSERT INTO t VALUES (8, 9) ON CONFLICT (id) DO UPDATE SET v = 10 RETURNING v => 10
        a: SELECT id, v FROM t ORDER BY id => 1|11, 3|30, 4|40, 5|50, 6|60, 8|10
    """,
    "one snapshot: MERGE": f"""
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: {MERGE.format(id=1, v=5)} => UPDATE|1|5
        b: {MERGE.format(id=7, v=5)} => INSERT|7|5
        b: UPDATE t SET v = 0 WHERE id = (SELECT id FROM t WHERE v > 55 LIMIT 1) => UPDATE 1
        b: COMMIT
        a: COMMIT
        a: SELECT id, v FROM t ORDER BY id => 1|5, 2|20, 3|30, 4|40, 5|50, 6|0, 7|5
    """,
    "one snapshot: a deadlock": """
        a and b: BEGIN ISOLATION LEVEL REPEATABLE READ
        a and b: SELECT count(*) FROM t => 6, 6
        a: UPDATE t SET v = 0 WHERE id = 1
        b: UPDATE t SET v = 0 WHERE id = 2
        a: UPDATE t SET v = 0 WHERE id = 2 -- waits
        b: UPDATE t SET v = 0 WHERE id = 1 -- waits
        a or b goes on => error 40P01
        a and b: ROLLBACK
    """,
    "REPEATABLE READ does not change what has changed": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT v FROM t WHERE id = 1 => 10
        b: UPDATE t SET v = 11 WHERE id = 1
        a: SELECT v FROM t WHERE id = 1 => 10
        a: UPDATE t SET v = v + 1 WHERE id = 1 => error 40001
        a: ROLLBACK
    """,
    "REPEATABLE READ waits, and does not change what has changed": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: SELECT v FROM t WHERE id = 1 => 10
        b: UPDATE t SET v = v + 1 WHERE id = 1 -- waits
        a: COMMIT
        b goes on => error 40001
        b: ROLLBACK
    """,
    "REPEATABLE READ inserts": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: INSERT INTO t VALUES (7, 70) => INSERT 0 1
        a: INSERT INTO t VALUES (1, 0) => error 23505
        a: ROLLBACK
        b: SET default_transaction_isolation = 'serializable'
        b: INSERT INTO t VALUES (8, 80), (9, 90) => INSERT 0 2
        b: RESET default_transaction_isolation
        c: UPDATE t SET v = 0 WHERE id = 8 => UPDATE 1
    """,
    "what was rolled back to a savepoint has locked nothing": """
        a: BEGIN
        a: SAVEPOINT s
        a: UPDATE t SET v = 11 WHERE id = 1 => UPDATE 1
        a: ROLLBACK TO s
        b: ALTER TABLE t ALTER v DROP DEFAULT
        a: SELECT v FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED => 10
        a: ROLLBACK TO s
        b: ALTER TABLE t ALTER v DROP DEFAULT
        a: SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT => 10
        a: ROLLBACK TO s
        b: ALTER TABLE t ALTER v DROP DEFAULT
        a: UPDATE t SET v = 21 WHERE id = 2 => UPDATE 1
        b: UPDATE t SET v = 31 WHERE id = 3 => UPDATE 1
        a: COMMIT
    """,
    "REPEATABLE READ changes what another has not changed after all": """
        a: BEGIN
        a: UPDATE t SET v = 11 WHERE id = 1
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: SELECT v FROM t WHERE id = 1 => 10
        b: UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v -- waits
        a: ROLLBACK
        b goes on => 11
        b: COMMIT
    """,
}


def setup(backend: str, scenario: str) -> Sequence[str]:
    return (*SETUP, *(FEW if " few " in scenario else ()), *TIERED.get(backend, ()))


@pytest.fixture(scope="module")
def theatre(
    plain_postgres: Address, gateway: Address, resident_gateway: Address
) -> Iterator[Theatre]:
    tiered = dict.fromkeys(TIERED, gateway)
    servers = {PLAIN: plain_postgres, "resident": resident_gateway, **tiered}
    with opened(SCHEMA, servers, setup) as theatre:
        yield theatre


@pytest.fixture(scope="module")
def played(
    theatre: Theatre, request: pytest.FixtureRequest
) -> Callable[[str], Mapping[str, Future[Played]]]:
    """Scenarios, each played once."""
    return once(theatre, SCENARIOS, request.session)


CASES = [
    *(pytest.param(*case, id="-".join(case)) for case in product(SCENARIOS, (PLAIN, "resident"))),
    *crossed(list(SCENARIOS), list(TIERED), step=2),
]


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_rows_are_fought_for_as_in_postgresql(
    played: Callable[[str], Mapping[str, Future[Played]]], name: str, backend: str
) -> None:
    plain, found = (played(name)[one].result() for one in (PLAIN, backend))
    if backend == PLAIN:
        assert found.dialogue == expected(SCENARIOS[name], found.dialogue)
        return
    assert found.dialogue == plain.dialogue
    assert found.rows == plain.rows
    assert found.differences == [(0,)]


def test_rows_that_are_read_besides_are_not_left_out(gateway: Address, database: str) -> None:
    """What is left out as others have locked it, nobody else in the statement would find."""
    besides = (
        "SELECT t.id FROM t JOIN t other ON other.id = t.id + 1"
        " WHERE t.id = 1 AND other.id = 2 FOR UPDATE OF t SKIP LOCKED"
    )
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as client:
        for statement in SETUP:
            client.execute(statement)
        for statement in (besides, QUEUE):
            client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="SKIP LOCKED"):
                client.execute(statement)
            client.execute("ROLLBACK")
        for statement in TIERED["hot"]:
            client.execute(statement)
        for statement in (besides, QUEUE):
            client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert client.execute(statement).fetchall() == [(1,)]
            client.execute("COMMIT")
