# Aggregate functions over all rows, none, and groups.
select count(*), count(i4), count(s), count(b), count(nn), count(1) from edge
select count(*), count(i4), sum(i4), avg(i4), min(s), max(n), sum(n), sum(f8), bool_and(b), string_agg(s, ','), array_agg(i4), sum(nn), avg(nn), avg(n), sum(i8), min(c) from edge where false
select sum(i2), sum(i4), sum(i8), sum(n), sum(n5), sum(nn), sum(big) from edge
select sum(i2), sum(i4), sum(n), sum(nn) from edge where id = 6
select avg(i2), avg(i4), avg(i8), avg(n), avg(n5), avg(nn) from edge
select avg(i4), avg(n), avg(n5), avg(nn), avg(i8) from edge where id in (1, 7, 8)
select avg(n), avg(i4) from edge where id = 2
select avg(n * 0 - 1234567890123456.12345678901234567891), avg(-(n * 0 + 1234567890123456.12345678901234567891)) from edge where id in (1, 2)
select sum(f8), avg(f8), sum(f4), avg(f4) from edge where id in (1, 2, 3, 7, 8)
select sum(f8), avg(f8), sum(f4), avg(f4), min(f8), max(f8), min(f4), max(f4) from edge
select sum(f8), avg(f8) from edge where id in (1, 4)
select sum(f4), sum(f4) filter (where id < 3), sum(f4 order by id desc), sum(distinct f4), avg(distinct f4), avg(f8 order by id), sum(f8 order by f8) from edge
select min(i2), max(i2), min(i4), max(i4), min(i8), max(i8), min(n), max(n), min(nn), max(nn), min(big), max(big) from edge
select min(s), max(s), min(v), max(v), min(c), max(c), min(nam::text), min(by), max(by), min(o), max(o) from edge
select min(d), max(d), min(ts), max(ts), min(tz), max(tz), min(ti), max(ti), min(iv), max(iv) from edge
select bool_and(b), bool_or(b), every(b), bool_and(i4 > -5), bool_or(i4 is null) from edge
select bit_and(i4), bit_or(i4), bit_xor(i4), bit_and(i2), bit_or(i2), bit_xor(i2), bit_and(i8), bit_or(i8), bit_xor(i8) from edge
select any_value(i4), any_value(s), any_value(n), any_value(nn) from edge where id in (6, 7)
select count(distinct i4), count(distinct b), count(distinct c), count(distinct nn), count(distinct f8), count(distinct iv), sum(distinct i2), avg(distinct i4), sum(distinct n), min(distinct i4), count(distinct s) from edge
select count(*) filter (where i4 > 0), sum(n) filter (where b), avg(n) filter (where i4 > 0), min(s) filter (where false), count(distinct b) filter (where i4 > 0), string_agg(t, '|' order by id) filter (where i4 > 0), array_agg(i4 order by id) filter (where b), sum(nn) filter (where id < 4), sum(f8) filter (where id = 1) from edge
select string_agg(s, ',' order by id), string_agg(s, ',' order by s), string_agg(s, '' order by id desc), string_agg(t, ', ' order by i4 nulls first, id), string_agg(s, null order by id), string_agg(c, ',' order by c desc, id), string_agg(i4::text, '+' order by i4 desc) from edge
select string_agg(distinct b::text, ','), string_agg(distinct left(s, 1), ',' order by left(s, 1) desc) from edge
select array_agg(i4 order by id), array_agg(s order by id desc), array_agg(n order by n, id), array_agg(nn order by id), array_agg(d order by d nulls first, id), array_agg(c order by c, id desc), array_agg(distinct i2), array_agg(distinct b order by b desc), array_agg(i4 order by b, i4 desc), array_agg(u order by f8 desc nulls last, id) from edge
select b, count(*), sum(i4), avg(n), min(s), max(c), sum(nn), avg(nn) from edge group by b
select i4 > 0, sum(n / 3), avg(n / 3), min(n / 3), max(nn / 7) from edge where abs(n) < 1000 group by 1
select b, sum(n) / count(*), round(avg(n), 2), avg(n)::numeric(20,1), avg(i4) * 2, avg(n) + avg(i4), avg(n) > 1, 100 * sum(n) / nullif(sum(n5), 0) from edge group by b
select avg(n) / avg(n5), avg(i4) / avg(i2), sum(n) / sum(nn), (avg(n) - avg(nn)) * 3, avg(n)::float8, avg(n)::int, avg(n)::text from edge where id in (1, 7, 8)
select case when avg(i4) > 5 then avg(n) else 0 end, coalesce(avg(i4), 0), greatest(avg(n), avg(n5)), avg(i4) is null, nullif(avg(n), 0) from edge where id in (1, 7)
select sum(i8), avg(i8) from edge where i8 > 1000000
! 22003 select sum(f8 * '1e308') from edge where id in (1, 8, 7) having sum(f8 * '1e308') = 1 or sum(abs(f8) * '7e307') > 0
! 22012 select avg(n) / sum(i4 - i4) from edge
? select avg(distinct iv) from edge
select percentile_cont(0.5) within group (order by i4), percentile_cont(0.25) within group (order by f8 desc), percentile_cont(0) within group (order by id), percentile_cont(1) within group (order by id), percentile_cont(0.37) within group (order by id), percentile_cont(null) within group (order by id) from edge where f8 is null or abs(f8) < 1e30
select percentile_disc(0.5) within group (order by i4), percentile_disc(0.9) within group (order by s), percentile_disc(0) within group (order by d desc), percentile_disc(1) within group (order by id), percentile_disc(0.37) within group (order by ts) filter (where id > 3) from edge
select id % 3, percentile_cont(0.5) within group (order by i8), percentile_disc(0.5) within group (order by i8) from edge group by 1
select percentile_cont(0.5) within group (order by id), percentile_disc(0.5) within group (order by id) from edge where false
! 22003 select percentile_cont(1.5) within group (order by id) from edge
! 22003 select percentile_cont(1.5) within group (order by id) from edge where false
select percentile_cont(null) within group (order by id) from edge
select percentile_disc(null::float8) within group (order by s) from edge
select id % 3, percentile_cont(1.5) within group (order by id) from edge where false group by 1
select percentile_cont(array[0.5, 0.9]) within group (order by id), percentile_cont(array[0, 0.25, null, 1]) within group (order by f8 desc) filter (where abs(f8) < 1e30), percentile_cont('{}'::float8[]) within group (order by i4), percentile_cont(null::float8[]) within group (order by i4) from edge
select id % 3, percentile_cont(array[0.1, 0.5]) within group (order by i8::float8) from edge group by 1
select percentile_cont(array[0.1, 0.5]) within group (order by i8) from edge where false
! 22003 select percentile_cont(array[0.5, 1.5]) within group (order by id) from edge
! 22003 select percentile_cont(array[0.5, -1]) within group (order by id) from edge
? select percentile_disc(array[0.5, 0.9]) within group (order by id) from edge
? select percentile_disc(1.5) within group (order by id) from edge
? select percentile_cont(0.5) within group (order by iv) from edge
? select mode() within group (order by i4) from edge
? select json_agg(i4) from edge
? select string_agg(s, t) from edge
select sum(iv), sum(iv) filter (where id < 3), sum(ts - d) from edge
select sum(iv) from edge where false
select sum('178956970 years -2147483647 days'::interval), sum(iv) over (order by id rows between 1 preceding and current row) from edge where id = 1 group by id, iv
! 22008 select sum('178000000 years'::interval) from edge
! 22008 select sum('-2147483648 days'::interval) from edge
! 22008 select sum('2562047788:00:54.775807'::interval) from edge
! 22008 select sum('178000000 years'::interval) over (order by id) from edge
select avg(iv), avg(iv) filter (where id < 3), avg(ts - d), avg(ti::interval), avg(iv * 7) from edge
select avg(iv) from edge where false
select id % 3, avg(iv), avg(iv) > '1 day', sum(iv) / count(*) from edge where iv is not null group by 1
select id, avg(iv) over (order by id rows between 1 preceding and current row), avg(iv) over () from edge
? select max(arr) from edge
? select array_agg(arr) from edge
? select sum(distinct nn) from edge
? select xmlagg(null) from edge
select g, avg(a::numeric(12,2)), avg(a::numeric(18,6)), avg(a::numeric(14,4)), avg(distinct a::numeric(12,2)), avg(a::numeric(12,2)) filter (where g > 7) from (values (1, 9999.99), (1, 0.01), (2, 9999.99), (3, 10000), (4, 10000), (4, 10000.01), (5, 99999999.99), (5, 100000000.01), (6, 0.01), (6, 0), (6, 0), (7, 0), (8, -0.01), (8, 0), (8, -0.01), (9, null), (9, null), (10, -9999999999.99), (10, 9999999999.99), (11, 1.99), (11, 1), (12, 2), (12, 0), (12, 0), (13, 9999999999.99), (14, -9999.995), (14, null), (15, 1.99), (16, -2)) v(g, a) group by g
select avg(a::numeric(12,2)), avg(a::numeric(12,2) * 2), avg(abs(a::numeric(12,2))), avg(-a::numeric(12,2)), round(avg(a::numeric(12,2)), 2) from (values (1, 9999.99), (1, 0.01), (2, 9999.99), (3, 10000), (4, 10000), (4, 10000.01), (5, 99999999.99), (5, 100000000.01), (6, 0.01), (6, 0), (6, 0), (7, 0), (8, -0.01), (8, 0), (8, -0.01), (9, null), (9, null), (10, -9999999999.99), (10, 9999999999.99), (11, 1.99), (11, 1), (12, 2), (12, 0), (12, 0), (13, 9999999999.99), (14, -9999.995), (14, null), (15, 1.99), (16, -2)) v(g, a)
select g, avg(a::numeric(20,16)), avg(a::numeric(22,17)), avg(a::numeric(38,20)), avg(a::numeric(5,0)) from (values (1, 0.9999), (1, 0.00001), (2, 0.0000000000000001), (2, 0), (2, 0), (3, -0.12345678901234567), (4, 99.9), (4, 0.1), (5, null), (6, 0), (7, 0.00009999), (7, 0.0001)) v(g, a) group by g
select g, avg(a::numeric(17,0)), avg(a::numeric(20,0)), avg(a::numeric(30,0)), avg(a::numeric(38,0)), avg(a::bigint) from (values (1, 1), (1, 2), (2, 9999), (2, 10000), (2, 10000), (3, 999999999999999), (3, 999999999999998), (4, -99999999), (4, null), (5, null), (6, 0), (7, 9999999999999999), (8, 10000000000000000)) v(g, a) group by g
select id, avg(n) over (order by id), avg(i4) over (order by id), avg(n / 3) over (order by id rows 1 preceding), avg(n) over (order by id) * 2 from edge
select sum(case when b then n else 0 end), avg(case when b then n else 0 end), min(case when b then n else 0 end), count(case when b then n else 1.5 end), sum(coalesce(n, 0)), avg(coalesce(n, 0)), max(coalesce(n, 0.000)) from edge
select b, sum(case when i4 > 0 then n when i4 < 0 then -n5 * n5 end), sum(coalesce(n, n5, 0.0000)), sum(case when i4 > 0 then 1 else 0.50 end), avg(case when i4 > 3 then 0 else 1.25 end) from edge group by b
select sum(case when b then n else 0 end) filter (where i4 > 0), sum(case when b then 0 else n end), sum(case when false then n else 0 end), sum(case when b then 0 end), 100.00 * sum(case when b then n else 0 end) / sum(n5) from edge where id in (1, 7, 8)
select sum(case when b then n else 0 end), avg(coalesce(n, 0)) from edge where false
select id, sum(case when b then n else 0 end) over (order by id), sum(coalesce(n, 0)) over () from edge
select id from edge where coalesce(n, 0) > 0 and case when b then n else 0 end <= 1.5 and coalesce(n, 1) <> n5
select id from edge order by coalesce(n, 0), id
