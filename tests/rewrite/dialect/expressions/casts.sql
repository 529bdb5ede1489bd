# Casts, length coercions, and text as and from other types.
i2::int, i2::bigint, i4::bigint, i2::real, i2::float8, i4::real, i4::float8, i8::real, i8::float8
i4::smallint ;; abs(i4::bigint) < 30000
i8::smallint, i8::int ;; abs(i8::numeric) < 30000
f4::float8, f4::smallint, f4::int, f4::bigint, f8::smallint, f8::int, f8::bigint ;; abs(f8) < 1000 and abs(f4) < 1000
0.5::float8::int, 1.5::float8::int, 2.5::float8::bigint, (-0.5)::float8::int, (-1.5)::float8::smallint, 2.5::real::int
f8::real ;; f8 > -1e30
o::bigint, i4::oid, o::oid, i2::oid, i2::oid > 5
b::int, i4::bool, b::text, b::varchar, b::char(5), 0::bool
i4::text, i8::text, i2::varchar(3), n::text, nn::varchar, d::text, ts::text, tz::text, ti::text, u::text, by::text, s::text, v::text, c::text, nam::text, ch::text, o::text
s::varchar(3), s::varchar, v::varchar(20), s::char(3), s::char(20), v::bpchar, c::char(3), c::char(10), c::varchar(4), s::name, i4::varchar(2), c::name, s::"char", nam::char(8), nam::varchar(2) ;; id <> 4
'abc'::char(5) || 'x', 'abc'::varchar(2), ''::char(3), 'ab  '::char(2)
d::timestamp, ts::date, tz::date, tz::timestamp, ts::timestamptz, d::timestamptz, ts::time, tz::time, d::timestamptz::date
ts::timestamp(0), ts::timestamp(3), tz::timestamptz(1), ti::time(0), ti::time(3), ts::timestamp(6)
'1999-12-31 23:59:59.4999'::timestamp(0), ts::timestamp(2)
ti::interval, iv::time
i4::text::int, i8::text::bigint, i2::text::smallint, n::text::numeric, nn::text::numeric, b::text::bool, d::text::date, ts::text::timestamp, u::text::uuid
' 12 '::text::int, '+5'::text::int, '-0'::text::int, ' 1.50 '::text::numeric, '.5'::text::numeric, '5.'::text::numeric, '-.25'::text::numeric, '007'::text::numeric, '1e3'::text::float8, ' .5'::text::float8, 'NaN'::text::float8, '-inf'::text::float8, 'Infinity'::text::float8
'yes'::text::bool, 'OFF'::text::bool, ' t '::text::bool, '0'::text::bool, 'of'::text::bool, 'n'::text::bool, 'Tru'::text::bool
'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::text::uuid, '2024-02-29'::text::date, '2024-02-29 12:34:56.789'::text::timestamp, '2024-02-29'::text::timestamp, 'x'::text::"char"
i4::text || 'x', (i4 > 0)::text, (-n)::text, (i4::text)::varchar(3), (n * 2)::varchar(6)
js, js::text
? js::jsonb
! 22003 i4::smallint
! 22003 i8::int
! 22003 i8::smallint
! 22003 f8::int
! 22003 f8::bigint
! 22003 f4::smallint
! 22003 (f8 * '1e300')::real ;; f8 = 2.5
! 22003 '99999999999'::text::int
! 22003 '40000'::text::smallint
! 22003 '9223372036854775808'::text::bigint
! 22003 '1e400'::text::float8
! 22003 '1e-400'::text::float8
! 22P02 s::int
! 22P02 s::numeric
! 22P02 s::float8
! 22P02 s::bool
! 22P02 s::uuid
! 22P02 '12a'::text::bigint
! 22P02 'o'::text::bool
? f8::text
? iv::text
? arr::text
? s::interval
? s::timestamptz
? s::time
? s::json
? i4::"char"
? s::regclass
? '{1,2}'::text::int[]
