# Window functions, and aggregates over windows.
select id, row_number() over (order by i4, id), rank() over (order by b), dense_rank() over (order by b), percent_rank() over (order by b), cume_dist() over (order by b), ntile(3) over (order by id) from edge
select id, rank() over (), dense_rank() over (), percent_rank() over (), cume_dist() over () from edge
select id, row_number() over (partition by b order by id desc), rank() over (partition by b order by i4 > 0) from edge
select id, lag(i4) over (order by id), lead(i4) over (order by id), lag(i4, 2) over (order by id), lead(s, 2) over (order by id), lag(i4, 0) over (order by id), lag(i4, -1) over (order by id), lag(i4, null) over (order by id) from edge
select id, lag(i4, 1, -1) over (order by id), lead(s, 1, 'none') over (order by id), lag(n, 1, 0) over (order by id), lag(n, 1, n5) over (order by id), lead(nn, 1, 1.5) over (order by id), lag(i4, 1, i2) over (order by id) from edge
select id, first_value(i4) over (order by id), last_value(i4) over (order by id), nth_value(i4, 2) over (order by id), last_value(i4) over (order by id rows between unbounded preceding and unbounded following), first_value(nn) over (partition by b order by id), nth_value(s, 3) over (order by id rows between unbounded preceding and unbounded following) from edge
select id, sum(i4) over (order by id), sum(n) over (partition by b order by id), count(*) over (partition by b), count(s) over (), avg(n) over (order by id rows between 1 preceding and current row), avg(i4) over (), min(s) over (order by id), max(c) over (order by id), sum(nn) over (order by id), bool_or(b) over (order by id) from edge
select id, sum(i4) over (order by b), count(*) over (order by b), sum(f8) over (order by id rows between 1 following and 2 following) from edge where id not in (4, 5)
select id, count(*) filter (where i4 > 0) over (order by id), sum(n) filter (where b) over (), array_agg(i4) over (order by id rows between 1 preceding and current row) from edge
select id, sum(i8) over (order by id), avg(nn) over (order by id), max(n / 3) over (order by id), min(nn) over (order by id), max(iv) over (order by id) from edge where id in (1, 2, 7, 8)
select b, sum(sum(i4)) over (order by b), rank() over (order by avg(n)) from edge group by b
select id from edge order by f8, id
select id from edge order by f8 desc, id
select id from edge order by f4 nulls first, id
select id from edge order by s, id
select id from edge order by c desc nulls last, id
select id from edge order by n / 3, id
select id from edge order by nn desc, id
select id from edge order by b, iv desc, id
select id from edge order by u desc, by, o
select id from edge order by nam desc nulls last, id
select id from edge order by d desc, ts, tz, ti
select id from edge order by v, t desc
! 22014 select ntile(0) over (order by id) from edge
? select nth_value(i4, i2) over (order by id) from edge
? select lag(i4, i2) over (order by id) from edge
? select ntile(i4) over (order by id) from edge
select id, string_agg(s, ',') over (order by id) from edge
? select id from edge order by arr
? select id from edge order by s using ~<~
! 22016 select nth_value(i4, 0) over (order by id) from edge
