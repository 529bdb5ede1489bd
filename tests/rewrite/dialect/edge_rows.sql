-- The rows every expression is evaluated over: extremes, zero, empty, NULL, blanks, Unicode, leap days.
create table edge (
    id int primary key, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision,
    n numeric(15,2), n5 numeric(10,5), nn numeric, big numeric(30,0), b bool,
    s text, t text, v varchar(10), c char(6), nam name, ch "char", d date, ts timestamp, tz timestamptz,
    ti time, iv interval, u uuid, by bytea, arr int[], sarr text[], o oid, js json
);

insert into edge values
(1, 1, 2, 3, 1.5, 2.5, 10.25, 1.23456, 12.345, 123456789012345678901234567890, true,
 'hello', 'l', 'World', 'ab', 'nam', 'x', '2024-02-29', '2024-02-29 13:14:15.123456', '2024-02-29 13:14:15.5+00',
 '10:11:12.5', '1 mon 2 days 03:04:05.6', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\x01ff',
 array[1,2,3], array['a','b'], 1, '{"a": 1}'),
(2, -7, -3, -9, -0.25, -1e10, -3.00, -0.00001, -0.5, -1, false,
 '', '', '', '', '', '', '1970-01-01', '1970-01-01 00:00:00', '1999-12-31 23:59:59.999999+00',
 '00:00:00', '-1 day', '00000000-0000-0000-0000-000000000000', '\x',
 '{}', '{}', 0, '1'),
(3, 0, 0, 0, 0, 0, 0, 0, 0.000, 0, null,
 '  pad ', ' ', ' x', 'a b   ', 'a b', ' ', '2000-12-31', '2000-12-31 23:59:59.999999', '2038-01-19 03:14:07+00',
 '23:59:59.999999', '00:00:00', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\x00',
 array[null,5], array[null,'x'], 4294967295, 'null'),
(4, 32767, 2147483647, 9223372036854775807, 'NaN', 'Infinity', 9999999999999.99, 99999.99999,
 123456789012.123456, 999999999999999999999999999999, true,
 'ÄÖü ß€ 😀', 'ß', 'größe', 'é', 'größe', '~', '2099-12-31', '2099-12-31 12:00:00', '2024-03-31 01:30:00+00',
 '12:00:00', '1 year -1 day', '12345678-1234-1234-1234-123456789abc', '\xdeadbeef',
 array[7], array[''], 2147483648, '[]'),
(5, -32768, -2147483648, -9223372036854775808, '-Infinity', 'NaN', -9999999999999.99, -99999.99999,
 -1, -999999999999999999999999999999, false,
 '100%_a\b', '%', 'a%b', 'z', 'UPPER', 'A', '1582-10-15', '1582-10-15 01:02:03', '1900-01-01 00:00:00+00',
 '01:02:03.004', '-3 mons 5 days -01:00:00', '00000000-0000-0000-0000-0000000000ff', '\x61',
 null, null, 77, '{}'),
(6, null, null, null, null, null, null, null, null, null, null,
 null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
(7, 12, 100, 1000, 0.1, 0.1, 0.01, 0.5, 1.10, 7, true,
 'Hello World foo', 'o', 'foo', 'foo', 'foo', 'f', '2023-12-31', '2023-12-31 23:59:59', '2024-11-03 06:30:00+00',
 '06:07:08', '1 day 02:00', 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', '\x6869',
 array[1,1], array['foo','bar'], 12, '"x"'),
(8, 2, 3, 7, -1.75, -2.5, 0.05, 3.00001, 100000.00, 10000, false,
 E'tab\tnew\nline', E'\t', E'a\t', E'a\t', 'zz', 'z', '0001-01-01', '0001-01-01 00:00:00', '2024-11-03 05:30:00+00',
 '23:00:00', '30 days', '00000000-0000-0000-0000-00000000000f', '\x5c',
 array[3,null], array['a,b','"'], 3, '0');

-- Documents: each kind of value, nested and empty, escapes, keys of other lengths and letters, digits.
alter table edge add column jb jsonb;
update edge set jb = case id
    when 1 then '{"a": 1.10, "b": {"c": [1, 2.00, {"d": "x"}], "e": null}, "t": "é\"\\\n\u001f/", "f": true, "": "empty", "k k": [], "a\"b": 7}'
    when 2 then '[1, "two", null, {"a": 1, "b": [1, {"c": 2.50}]}, [1, [2, "x"]], true, -0.00, "a, b]", "two"]'
    when 3 then '"text"'
    when 4 then '{"a": 123456789012345678901234567890.123450, "b": [], "c": {}, "t": "{\"a\": 1}", "big": 1e40}'
    when 5 then '[]'
    when 7 then '{"a": null, "b": "a", "t": "null", "n": -7.5, "tags": ["x", "y", "x y"], "d": {"a": {"a": {"a": 5}}}}'
    when 8 then '-12.50'
end::jsonb;
