# Values of type jsonb: parts, keys, containment, equality.
jb, jb::text, jb -> 'a', jb -> 'b', jb -> 't', jb -> 'f', jb -> '', jb -> 'k k', jb -> 'a"b', jb -> 'nothing', jb -> 'c', jb -> null
jb ->> 'a', jb ->> 'b', jb ->> 't', jb ->> 'f', jb ->> '', jb ->> 'k k', jb ->> 'a"b', jb ->> 'nothing', jb ->> 'big', jb ->> 'd', jb ->> null
jb -> 0, jb -> 1, jb -> 2, jb -> 3, jb -> 4, jb -> 6, jb -> 7, jb -> 8, jb -> 9, jb -> 100, jb -> -1, jb -> -2, jb -> -9, jb -> -10, jb -> 2147483647, jb -> -2147483648, jb #> '{-2147483648}', jb[-2147483648]
jb ->> 0, jb ->> 1, jb ->> 2, jb ->> 3, jb ->> 6, jb ->> 7, jb ->> 9, jb ->> -1, jb ->> -3
jb -> 'b' -> 'c' -> 2 ->> 'd', jb -> 3 -> 'b' -> 1 ->> 'c', jb -> 'd' -> 'a' -> 'a' -> 'a', jb -> 4 -> 1 ->> 1, jb -> 'tags' -> 2, jb -> 'a' -> 0, jb -> 'b' -> 0
jb #> '{b,c,2,d}', jb #> '{3,b,1,c}', jb #> '{}', jb #> '{a}', jb #> '{b,c,-1}', jb #> '{b,c,x}', jb #> '{b, c, 0}', jb #> '{tags,1}', jb #> '{4,1,1}', jb #> '{b,null}', jb #> null, jb #> '{99999999999}'
jb #>> '{b,c,2,d}', jb #>> '{b,e}', jb #>> '{}', jb #>> '{t}', jb #>> '{b}', jb #>> '{d,a,a,a}', jb #>> '{-1}', jb #>> '{" 1"}', jb #>> '{+1}', jb #>> '{a,b}', jb #>> '{00000000000001}', jb #>> '{+00000000000}', jb #>> '{0x1}', jb #>> '{"1 "}', jb #>> '{-0}', jb #>> '{}'
jsonb_extract_path(jb, 'b', 'c'), jsonb_extract_path_text(jb, 'b', 'c', '1'), jsonb_extract_path_text(jb, 't')
jb['a'], jb['b']['c'][1], jb['b']['c']['2']['d'], jb[3]['b'], jb[-1], jb[0], jb['d']['a'], jb[null], jb['a'][null]
jsonb_typeof(jb), jsonb_typeof(jb -> 'a'), jsonb_typeof(jb -> 'b'), jsonb_typeof(jb -> 'f'), jsonb_typeof(jb -> 2), jsonb_typeof(jb -> 'nothing')
jsonb_array_length(jb) ;; id in (2, 5, 6)
jsonb_array_length(jb -> 'tags'), jsonb_array_length(jb -> 'k k')
! 22023 jsonb_array_length(jb) ;; id = 1
! 22023 jsonb_array_length(jb) ;; id = 3
jb ? 'a', jb ? 'two', jb ? 'text', jb ? '', jb ? 'x', jb ? 'a, b]', jb ? 'a"b', jb -> 'tags' ? 'x', jb -> 'tags' ? 'x y', jb ? null
jb ?| array['a', 'two'], jb ?& array['a', 'b'], jb ?| '{}', jb ?& '{}', jb ?| array['q', null], jb ?& array['a', null], jb ?| null
jb @> '{}', jb @> '[]', jb @> '{"a": 1.1}', jb @> '{"a": 1.10000}', jb @> '{"a": 1}', jb @> '{"a": null}', jb @> '{"b": {"c": [2]}}', jb @> '{"b": {"c": [{"d": "x"}, 1]}}', jb @> '{"b": []}', jb @> '{"b": {}}', jb @> '{"t": "null"}'
jb @> '["two"]', jb @> '"two"', jb @> '[1, 1.0]', jb @> '[0]', jb @> '[{"a": 1}]', jb @> '[{"b": [{"c": 2.5}]}]', jb @> '[[[2]]]', jb @> '[[2]]', jb @> 'null', jb @> '[null]', jb @> '"text"', jb @> '-12.5', jb @> '[-12.5]', jb @> 'true', jb @> '["a, b]", "two"]'
jb @> '{"tags": ["y"]}', jb @> '{"tags": ["x y", "x"]}', jb @> '{"tags": "x"}', jb @> '{"n": -7.50, "b": "a"}', jb @> '{"f": true}', jb @> '{"d": {"a": {"a": {}}}}', jb @> null, jb @> '{"a\"b": 7}', jb @> '{"k k": []}', jb @> '{"k k": [1]}', jb @> '{"t": "{\"a\": 1}"}'
'{"a": null, "b": "a", "x": 1}' <@ jb, '[]' <@ jb, '"two"' <@ jb
jb = '[]', jb <> '[]', jb = '"text"', jb = '-12.5', jb = '-12.500', jb = '-12', '[]' = jb, jb -> 'a' = '1.1', jb -> 'b' <> '"a"', jb -> 'n' = '-7.5', jb -> 'b' = '{"c": [1.0, 2, {"d": "x"}], "e": null}', jb = null, null = jb, jb -> 'f' = 'true', jb in ('[]', '"text"', null), jb not in ('[]', '-12.5'), case jb when '[]' then 1 when '-12.50' then 2 end
(jb -> 'a')::numeric, (jb -> 'a')::int, (jb ->> 'a')::numeric ;; id in (1, 6, 7)
(jb -> 'n')::numeric, (jb -> 'n')::int, (jb -> 'n')::bigint, (jb -> 'n')::smallint, (jb ->> 'n')::numeric(10,3), (jb ->> 'n')::float8
! 22023 (jb -> 'b')::int ;; id = 1
! 22023 (jb -> 'b')::numeric ;; id = 7
! 22023 (jb -> 'f')::int
! 22003 (jb -> 'a')::int ;; id = 4
select jb ->> 'b', count(*), min(jb ->> 't') from edge group by 1
select count(*) filter (where jb ? 'a'), count(*) filter (where jb @> '{"f": true}'), string_agg(jb ->> 't', '|' order by id) from edge
select array_agg(jb order by id), array_agg(jb -> 'a' order by id) from edge where id in (1, 3, 6)
select a.id, b.id from edge a join edge b on a.jb ->> 'a' = b.jb ->> 'a' and a.jb ->> 'b' = b.jb ->> 'b'
select id from edge where jb ->> 'a' = '1.10' and 10 / (i4 - 0) = 5
select a.id, b.id from edge a, edge b where a.jb ->> 't' = 'null' and b.id <> 7 and 10 / (a.id - b.id) < 100
select id from edge where jb ->> 't' = 'null' and 10 / (id - 2) > 0 and t::text = 'o'
select id from edge where jb ->> 'a' is null and jb @> '[]' and 10 / (id - 1) > 4
select id from edge where jb ->> 't' = 'null' or (jb ->> 'a' = '1.10' and 5 / id = 5)
select id from edge where jb ->> 't' = 'null' or jb -> 'a' is null
case when jb ? 'a' then jb -> 'a' else '{"none": [1.50, true, null, "é\n"]}' end, coalesce(jb -> 'b', '{}'), coalesce(jb, '[1, {"a": {"b": "c"}}]') -> 1 -> 'a', '{"a": {"b": 7}}'::jsonb -> 'a'
select id, e, jsonb_typeof(e), place from edge, jsonb_array_elements(jb) with ordinality as x(e, place) where id in (2, 5, 6)
select id, e from edge left join lateral jsonb_array_elements_text(case when jsonb_typeof(jb) = 'array' then jb else jb -> 'tags' end) e on true where id <> 3 or id is null
select id, k, jb -> 'a' from edge, jsonb_object_keys(jb) k where id in (1, 4, 6, 7)
select id, (select count(*) from jsonb_array_elements(jb -> 'tags') e where e = '"x"') from edge
select id from edge where exists (select from jsonb_array_elements_text(jb -> 'tags') e where e like 'x%')
select e ->> 'a' from jsonb_array_elements('[{"a": 1}, {"a": "b"}]') e, edge where id = 1
select id, key, value, jsonb_typeof(value) from edge, jsonb_each(jb) where id in (1, 4, 6, 7)
select id, x.key, value, place from edge, jsonb_each_text(jb) with ordinality x(key, value, place) where id in (1, 4, 6, 7)
select key, count(*) from edge, jsonb_each(jb -> 'd') group by key
! 22023 select key from edge, jsonb_each(jb) where id = 2
! 22023 select value from edge, jsonb_each_text(jb) where id = 3
! 22023 select e from edge, jsonb_array_elements(jb) e where id = 1
! 22023 select e from edge, jsonb_array_elements_text(jb) e where id = 3
! 22023 select e from edge, jsonb_object_keys(jb) e where id = 2
! 22023 select e from edge, jsonb_object_keys(jb) e where id = 8
? select id, jsonb_array_elements(jb) from edge
? jb -> s
? jb ->> t
? jb -> i4
? jb[s]
? jb[i4]
? select x from edge, json_array_elements(js) x
? jb #> array[s]
? jb = jb
? jb < '[]'
? jb is distinct from '[]'
? nullif(jb, '[]')
? jb @> jb
? jb || '{}'
? jb - 'a'
? jsonb_set(jb, '{a}', '1')
? js -> 'a'
? select jb, count(*) from edge group by 1
? select distinct jb from edge
? select jb from edge order by jb
? select max(jb ->> 'a'), jsonb_agg(jb) from edge
? jsonb_path_query_first(jb, '$.a')
