-- Queries of which Spark lacks a part, one in each line.
SELECT to_char(cost, 'FM990.00') FROM visit WHERE place = 3 ORDER BY id
SELECT id, format('%s: %s', id, note) FROM visit ORDER BY id DESC LIMIT 5 OFFSET 2
SELECT place, mode() WITHIN GROUP (ORDER BY cost) FROM visit WHERE id > 100 GROUP BY place ORDER BY 1
SELECT jsonb_agg(doc ORDER BY id) FROM visit WHERE cost < 3 AND gcd(id, 4) = 2
SELECT json_build_object('id', id, 'tags', tags) FROM visit WHERE note IS NULL ORDER BY id LIMIT 4
SELECT row_to_json(v) FROM visit v WHERE v.id < 4 ORDER BY id
SELECT to_jsonb(place) - 'parent' FROM place ORDER BY id LIMIT 3
SELECT v::text, count(v) OVER () FROM place AS v WHERE v.id < 4 ORDER BY v.id
SELECT doc || '{"z": null}', doc - 'a', jsonb_set(doc, '{b,0}', '"x"') FROM visit WHERE id % 100 = 7 ORDER BY id
SELECT doc->'a' AS a, count(*) FROM visit GROUP BY 1 ORDER BY 1
SELECT unnest(tags) AS tag, count(*) FROM visit GROUP BY 1 ORDER BY 1
SELECT id, tags[1:1], (tags)[2:] FROM visit WHERE 't1' = ANY (tags) ORDER BY id LIMIT 3
SELECT age(timestamp '2026-01-01', at), date_bin('15 minutes', at, timestamp '2025-01-01') FROM visit WHERE id < 5 ORDER BY id
WITH RECURSIVE up AS (SELECT id, parent, 1 AS level FROM place WHERE parent IS NULL UNION ALL SELECT p.id, p.parent, level + 1 FROM place p JOIN up ON p.parent = up.id) SELECT level, count(*), sum(up.id) FROM up GROUP BY 1 ORDER BY 1
WITH RECURSIVE up AS (SELECT p.id, p.parent FROM place p WHERE p.id = 40 UNION SELECT p.id, p.parent FROM place p, up WHERE p.id = up.parent) SELECT array_agg(id ORDER BY id) FROM up
SELECT id, sum(cost) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) FROM visit WHERE place = 7 ORDER BY id
SELECT id, count(*) OVER (ORDER BY place GROUPS 1 PRECEDING) FROM visit WHERE id <= 50 ORDER BY id
SELECT p.name, jsonb_agg(v.id ORDER BY v.id) FROM place p LEFT JOIN visit v ON v.place = p.id AND v.cost > 80 WHERE p.id < 12 GROUP BY p.name ORDER BY 1
SELECT p.name, format('%s', v.note) FROM visit v RIGHT JOIN place p ON v.place = p.id AND v.id < 20 WHERE v.note IS NULL ORDER BY 1, v.id
SELECT count(*), string_agg(format('%s', p.id), ',' ORDER BY p.id) FROM place p FULL JOIN visit v ON v.place = p.id AND v.id < 4 WHERE v.id IS NULL
SELECT p.name, (SELECT jsonb_agg(v.id ORDER BY v.id) FROM visit v WHERE v.place = p.id AND v.cost = 10) FROM place p WHERE p.id < 9 ORDER BY p.id
SELECT name FROM place p WHERE EXISTS (SELECT FROM visit v WHERE v.place = p.id AND gcd(v.id, 90) = 90) ORDER BY 1
SELECT p.id, x.doc FROM place p CROSS JOIN LATERAL (SELECT doc || jsonb_build_object('p', p.id) AS doc FROM visit v WHERE v.place = p.id ORDER BY v.id LIMIT 1) x WHERE p.id < 5 ORDER BY 1
SELECT jsonb_agg(x ORDER BY place) FROM (SELECT place, sum(cost) AS total FROM visit GROUP BY place) x WHERE place < 6
SELECT r.place, factor, json_agg(v.id ORDER BY v.id) FROM rate r JOIN visit v USING (place) WHERE v.id < 60 AND factor > 3 GROUP BY 1, 2 ORDER BY 1
SELECT jsonb_object_agg(d.id, d.cost ORDER BY d.id) FROM dear d WHERE d.place = 10
SELECT id FROM visit WHERE (doc || '{}')->>'a' = '3' UNION SELECT id FROM place WHERE gcd(id, 40) = 40 ORDER BY 1 LIMIT 9
SELECT count(*) FROM visit a, visit b WHERE a.id = b.id + 1 AND jsonb_build_array(a.place) = jsonb_build_array(b.place + 1) AND b.id < 99
SELECT gcd(place, 12) AS g, rank() OVER (ORDER BY sum(cost) DESC), sum(cost) FROM visit GROUP BY 1 HAVING gcd(count(*), 2) > 0 ORDER BY 2, 1
SELECT DISTINCT ON (gcd(place, 6)) gcd(place, 6), id FROM visit ORDER BY 1, id
SELECT int4range(place, place + 3) * int4range(2, 9) AS both, count(*) FROM visit WHERE place < 9 GROUP BY 1 ORDER BY 1
SELECT regexp_matches(note, '(\d)(\d)') FROM visit WHERE id < 30 ORDER BY id
SELECT (at, at + interval '1 hour') OVERLAPS (timestamp '2025-01-01 10:00', timestamp '2025-01-01 12:00') FROM visit ORDER BY id LIMIT 20
SELECT to_tsvector('simple', note) @@ to_tsquery('simple', '12') AS found, count(*) FROM visit GROUP BY 1 ORDER BY 1
SELECT gcd(id, 0) FROM visit WHERE id = 5 AND 10 / (id - 5) > 0
SELECT jsonb_agg(x.id) FROM visit
SELECT jsonb_build_object('k', 10 / (id % 3)) FROM visit WHERE id < 9
SELECT id::text, gcd(id, 4) FROM visit ORDER BY id LIMIT 3
SELECT *, gcd(id, 4) AS note FROM place ORDER BY parent DESC NULLS LAST, id LIMIT 3
SELECT jsonb_agg(j.c2 ORDER BY c1) FROM (visit CROSS JOIN rate) AS j (c1, c2) WHERE c1 < 7
SELECT gcd(id, 4) FROM visit WHERE 1 = 1 ORDER BY id LIMIT 3
SELECT gcd(v.id, 4), r.factor FROM visit v NATURAL JOIN (SELECT place, factor FROM rate) r ORDER BY v.id LIMIT 5
WITH w (n, p) AS MATERIALIZED (SELECT id, place FROM visit WHERE cost < 9) SELECT jsonb_agg(p ORDER BY n) FROM w
SELECT format('%s', z), y FROM (SELECT 100 / (id % 3) AS z, id % 3 AS y FROM visit) s WHERE y <> 0 ORDER BY 1, 2 LIMIT 3
WITH unused AS (SELECT 1 / (id - id) FROM visit) SELECT jsonb_agg(id ORDER BY id) FROM place WHERE id < 4
SELECT jsonb_agg(id ORDER BY id) FROM visit WHERE id % 2 <> 0 AND gcd(10 / (id % 2), 4) > 1 AND id < 9
SELECT jsonb_agg(id ORDER BY id) FROM place WHERE (SELECT false) AND name::integer = 3
SELECT jsonb_agg(id ORDER BY id) FROM place WHERE EXISTS (SELECT FROM rate WHERE false) AND name::integer = 3
SELECT current_setting('transaction_isolation'), format('%s', count(*)) FROM visit
SELECT * FROM told WHERE place = 3 ORDER BY number LIMIT 5
SELECT x.a, count(x.b) FROM told AS x (n, b, a) GROUP BY 1 ORDER BY 1 LIMIT 5
SELECT u.place, u.cost, r.factor FROM usual u JOIN rate r USING (place) WHERE n > 1 ORDER BY 1
WITH visit AS (SELECT 1 AS id), place AS (SELECT 2 AS id) SELECT told, visit.id FROM told, visit, place WHERE number < 5 ORDER BY number
SELECT * FROM both_of_them WHERE number < 9 ORDER BY number
SELECT row_to_json(usual) FROM usual WHERE place < 4 ORDER BY place
SELECT id FROM visit WHERE repeat(left(note, 1), 40) || id ~ '^(n|nn){1,40}b?\d*5$' ORDER BY id
