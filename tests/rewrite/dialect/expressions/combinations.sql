# Expressions that evaluate an operand once, wherever queries may put them.
select (select max(n) from edge) / 3, upper((select min(s) from edge where id > 2)), (select avg(n) from edge) + 1
select id, (select e.n / 3 from edge e where e.id = edge.id), upper((select e.s from edge e where e.id = edge.id)) from edge
select id, n / (select count(*) from edge), left((select e.s from edge e where e.id = edge.id), -1) from edge
select upper(min(s)), left(min(s), -1), substring(min(s), count(*)::int - 6), lpad(max(v), count(*)::int), min(n) / max(n), round(avg(f8)) from edge where id in (1, 7)
select upper(s), count(*) from edge group by upper(s)
select upper(s) || 'x', count(*) from edge group by upper(s)
select n / 3, count(*), sum(n / 3) from edge where id <> 4 group by n / 3
select n / 3 + 1, count(*) from edge group by n / 3 having n / 3 > 0
select distinct upper(s), n / 3 from edge
select id from edge order by upper(s), id
select id from edge order by n / 7 desc nulls last, id
select a.id, b.id from edge a join edge b on upper(a.s) = upper(b.s)
select a.id, b.id from edge a join edge b on a.n / 3 = b.n / 3 and a.id <= b.id
select a.id, b.nn from edge a left join edge b on a.nn = b.nn and b.n / 3 > 0
select id, sum(n / 3) over (order by id), rank() over (order by n / 3), lag(n / 3) over (order by id) from edge
select id from edge where n / 3 in (select n / 3 from edge where id < 4)
select id from edge where exists (select 1 from edge e where e.n / 3 = edge.n / 3 and e.id <> edge.id)
select q from (select n / 3 as q from edge where id < 6 union all select 1.5) x where q > 0
select n / 3 from edge where id < 4 union select 5 union select 3.4166666666666667
select case when id = 1 then n / 3 else (select max(nn) from edge) end from edge
select coalesce(n / 3, (select min(nn) from edge)), greatest(n / 3, nn), nullif(upper(s), 'HELLO') from edge
select id, x.m from edge, lateral (select edge.n / 3 as m) x
with q as (select id, n / 3 as a, upper(s) as b from edge) select a * 3, lower(b), a / 2 from q
select b, avg(n) / sum(n5), (avg(i4) - min(n)) * count(*) from edge where n5 <> 0 group by b having avg(n) > -1000000000000
select upper(substring(lower(left(s, -1)), 2, 3)), trim(split_part(replace(s, 'l', ' '), ' ', 1)) from edge
select ((n / 3) / 7) * 2 - 1, round((n / 3) / 7, 4), abs(-(n / 3)), ceil(n / 3), floor(nn / 7), sign(nn / 7), trunc(n / 3, 3), mod(n / 3, 2) from edge where id <> 4 and id <> 5
select date_trunc('month', ts + iv) - date_trunc('day', ts), extract(epoch from (ts + iv) - ts) from edge
select id from edge where upper(s) like '%WORLD%' or left(s, 2) = 'he' order by id
select id from edge where c = 'ab' or c in ('foo', 'z') order by id
