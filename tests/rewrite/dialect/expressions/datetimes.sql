# Dates, times, timestamps, intervals; the session's time zone is UTC.
d + 1, d - 1, 1 + d, d + i2, d - i2, d - '2000-01-01'::date, d - d, '2000-01-01'::date - d
d + 0, d + 365000, d - 700000 ;; id <> 8
d + iv, iv + d, d - iv, d + '1 month'::interval, '2024-01-31'::date + '1 month'::interval, d + '1 mon 1 day 01:00'::interval, d - '1 year'::interval
d + ti, ti + d
ts + iv, ts - iv, iv + ts, ts + '1 month'::interval, ts - '1 month'::interval, ts + '13 months -5 days 10:00:00.5'::interval, ts + '00:00:00.000001'::interval, ts + '0'::interval
'2024-03-31 10:00'::timestamp - '1 month'::interval, '2024-01-31 10:00'::timestamp + '1 month 1 day'::interval, '2023-02-28'::timestamp + '1 year'::interval, '2024-02-29'::timestamp + '1 year'::interval, '2024-02-29'::timestamp - '4 years'::interval
tz + iv, tz - iv, iv + tz, tz + '1 month'::interval, tz + '1 day'::interval, tz - '90 minutes'::interval
ts - '2000-01-01'::timestamp, '2000-01-01'::timestamp - ts, ts - ts, tz - '2000-01-01'::timestamptz, ts - d
ti + iv, ti - iv, iv + ti, ti + '23:59:59'::interval, ti - '12:00'::time, ti - ti
iv + iv, iv - '1 day'::interval, -iv, iv + '1 mon'::interval, iv * 2, 2 * iv, iv * -3, iv * 0, i2 * '1 day'::interval, '1 hour'::interval * i2
iv = '1 day', iv <> '1 day', iv < '1 mon', iv <= '30 days', iv > '0', iv >= '1 year', iv = '30 days', '1 mon'::interval = '30 days'::interval, '24:00'::interval = '1 day'::interval, iv is distinct from '26:00'
d = '2024-02-29', d <> '2024-02-29', d < '2000-12-31', d <= '2000-12-31', d > '1970-01-01', d >= '1970-01-01', d in ('2024-02-29', '1970-01-01'), d between '1970-01-01' and '2024-12-31'
ts = '1970-01-01', ts <> '1970-01-01', ts < '2000-12-31 23:59:59.999999', ts <= '2000-12-31 23:59:59.999999', ts > '1970-01-01', ts >= '1970-01-01'
tz = '2038-01-19 03:14:07+00', tz <> '2038-01-19 03:14:07+00', tz < '2024-03-31', tz <= '2024-03-31 01:30+00', tz > '2000-01-01', tz >= '1900-01-01 00:00:00+00'
ti = '12:00', ti <> '12:00', ti < '12:00', ti <= '12:00', ti > '12:00', ti >= '12:00'
d = ts, d <> ts, d < ts, d <= ts, d > ts, d >= ts, ts = d, ts <> d, ts < d, ts <= d, ts > d, ts >= d
d = tz, d <> tz, d < tz, d <= tz, d > tz, d >= tz, tz = d, tz <> d, tz < d, tz <= d, tz > d, tz >= d
ts = tz, ts <> tz, ts < tz, ts <= tz, ts > tz, ts >= tz, tz = ts, tz <> ts, tz < ts, tz <= ts, tz > ts, tz >= ts
extract(year from d), extract(month from d), extract(day from d), extract(quarter from d), extract(week from d), extract(dow from d), extract(isodow from d), extract(doy from d), extract(isoyear from d), extract(decade from d), extract(century from d), extract(millennium from d), extract(epoch from d)
extract(year from ts), extract(month from ts), extract(day from ts), extract(hour from ts), extract(minute from ts), extract(second from ts), extract(milliseconds from ts), extract(microseconds from ts), extract(epoch from ts), extract(week from ts), extract(dow from ts), extract(doy from ts), extract(isoyear from ts), extract(quarter from ts), extract(century from ts), extract(decade from ts), extract(millennium from ts), extract(isodow from ts)
extract(year from tz), extract(hour from tz), extract(second from tz), extract(epoch from tz), extract(day from tz), extract(minute from tz)
extract(hour from ti), extract(minute from ti), extract(second from ti), extract(milliseconds from ti), extract(microseconds from ti), extract(epoch from ti)
extract(year from iv), extract(month from iv), extract(day from iv), extract(hour from iv), extract(minute from iv), extract(second from iv), extract(epoch from iv), extract(milliseconds from iv), extract(microseconds from iv), extract(decade from iv), extract(century from iv), extract(millennium from iv)
extract(second from ts) * 2, extract(year from d) + 1, extract(epoch from tz) / 60
date_part('year', d), date_part('epoch', d), date_part('second', ts), date_part('epoch', ts), date_part('milliseconds', ts), date_part('microseconds', ts), date_part('hour', tz), date_part('epoch', tz), date_part('second', ti), date_part('epoch', iv), date_part('month', iv), date_part('day', ts), date_part('SECONDS', ts), date_part('mon', d)
date_trunc('day', ts), date_trunc('hour', ts), date_trunc('minute', ts), date_trunc('second', ts), date_trunc('milliseconds', ts), date_trunc('microseconds', ts), date_trunc('week', ts), date_trunc('month', ts), date_trunc('quarter', ts), date_trunc('year', ts), date_trunc('decade', ts), date_trunc('century', ts), date_trunc('millennium', ts) ;; id <> 8
date_trunc('day', tz), date_trunc('hour', tz), date_trunc('week', tz), date_trunc('month', tz), date_trunc('year', tz), date_trunc('month', d), date_trunc('second', tz), date_trunc('day', tz, 'UTC') ;; id <> 8
date_trunc('day', ts), date_trunc('month', ts), date_trunc('century', ts), date_trunc('hour', ts), date_trunc('decade', ts + '10 years'::interval)
make_date(2024, 2, 29), make_date(i2, 1, 1) ;; i2 > 0 and i2 < 10000
make_date(extract(year from d)::int, extract(month from d)::int, 1)
iv::interval(6), isfinite(d), isfinite(ts), isfinite(tz), isfinite(iv)
ts at time zone 'UTC', tz at time zone 'UTC', ts at time zone 'America/New_York', tz at time zone 'America/New_York', tz at time zone 'Asia/Kolkata', ts at time zone 'Europe/Berlin'
'2024-11-03 01:30'::timestamp at time zone 'America/New_York', '2024-03-10 02:30'::timestamp at time zone 'America/New_York', '2024-10-27 02:30'::timestamp at time zone 'Europe/Berlin', '2024-04-07 01:45'::timestamp at time zone 'Australia/Lord_Howe', '2011-12-30 12:00'::timestamp at time zone 'Pacific/Apia'
tz at local, ts at local
coalesce(d, current_date) is null, coalesce(ts, localtimestamp) is null, coalesce(tz, now()) is null, coalesce(tz, transaction_timestamp(), current_timestamp(2)) is null, coalesce(ti, localtime) is null, d > current_date - 100000
d::timestamp + ti::interval, (ts::date - d) * 2, extract(day from ts - '2000-01-01'::timestamp)
'0001-01-01'::date, '9999-12-31'::date, '2024-02-29 13:14:15.123456'::timestamp, '1900-01-01 00:00:00+00'::timestamptz, '12:34:56.789'::time, '1 year 2 mons -3 days 04:05:06.7'::interval, '0044-03-15 BC'::date, '10000-01-01'::date, '10000-01-01'::timestamp
to_char(ts, 'YYYY-MM-DD HH24:MI:SS'), to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US'), to_char(ts, 'DD/MM/YY'), to_char(ts, 'Mon DD, YYYY'), to_char(ts, 'FMMonth FMDD, YYYY'), to_char(ts, 'Month|MONTH|month|MON|mon'), to_char(ts, 'Day|DAY|day|Dy|DY|dy'), to_char(ts, 'FMDay, FMDD FMMonth'), to_char(ts, 'HH12:MI:SS AM'), to_char(ts, 'HH:MI pm'), to_char(ts, 'MS US'), to_char(ts, 'Q DDD D ID WW W IW IYYY'), to_char(ts, 'YYYY"Q"Q'), to_char(ts, 'yyyy-mm-dd hh24:mi:ss'), to_char(ts, 'YYYYMMDD'), to_char(ts, 'FMHH24:FMMI'), to_char(ts, 'FMMS FMUS'), to_char(ts, 'YYY Y'), to_char(ts, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), to_char(ts, 'FMMM/FMDD/YYYY'), to_char(ts, '  YYYY  ')
to_char(tz, 'YYYY-MM-DD HH24:MI:SS'), to_char(d, 'YYYY-MM'), to_char(d, 'IYYY-IW'), to_char(d, 'FMDDD'), to_char(d, 'éYYYY!')
to_timestamp(0), to_timestamp(1e9), to_timestamp(1700000000.123456), to_timestamp(-1.5), to_timestamp(extract(epoch from ts)) ;; id <> 8
date_part('hour', d), date_part('century', d), date_part('epoch', d - 700000)
extract(epoch from '178000000 years'::interval), extract(epoch from '-170000000 years'::interval + iv), extract(epoch from '178956970 years 2147483647 days 2562047788:00:54.775807'::interval), extract(epoch from '178956970 years'::interval) * 2, date_part('epoch', '178956970 years 7 months 2147483646 days'::interval), date_part('epoch', iv + '1 year 2 mons 3 days 04:05:06.789'::interval)
! 22008 date_part('year', d + 107000000)
! 22008 date_part('epoch', d + 107000000)
! 22008 d - (iv * 0 + '-2147483648 days'::interval)
! 22008 ts - (iv * 0 + '-2147483648 mons'::interval)
! 22008 tz - (iv * 0 - '2562047788:00:54.775807'::interval - '0.000001 s'::interval)
! 22008 ts - '-2147483648 mons'::interval
! 22008 '0100-12-31'::date - '-9223372036854775808 microseconds'::interval
! 22008 d + 2147483647
! 22008 d - 2147483647
! 22008 make_date(2023, 2, 29) + i4
! 22008 make_date(2024, i2, 1)
! 22008 make_date(0, 1, 1) + i2
? age(ts)
? age(ts, ts)
? justify_days(iv)
? extract(julian from d)
? extract(timezone from tz)
? to_date(s, 'YYYY-MM-DD')
? to_char(ts, s)
? to_char(ts, 'DDth')
? to_char(ts, 'J')
? to_char(ts, 'TZ')
? to_char(ts, 'FMRM')
? to_char(iv, 'HH24')
? date_bin('1 day', ts, ts)
? iv::interval(0)
? 'infinity'::date + i4
? d < 'infinity'::date
? statement_timestamp()
? tz at time zone s
? tz at time zone 'EST5EDT'
? date_trunc(s, ts)
iv / 2, iv / 3, iv / 0.7, iv / -7, iv / 1e10, iv * 0.5, 1.5 * iv, iv * -0.33, iv * 1e-7, iv * 0.1, iv / i2 ;; i2 <> 0
'1 mon'::interval / 2, '1 mon'::interval / 31, '7 mons 5 days'::interval / 4, '-5 mons 3 days -04:00'::interval / 7, '11 mons 29 days 23:59:59.999999'::interval * 1.1, '1 day'::interval / 3, '23:59:59.999999'::interval * 0.9999999, '100 years'::interval * 0.00001, '1 mon'::interval * 0.9999999999, '1 year 1 day'::interval / 'infinity' + iv * 0
select g, g * '1 mon 1 day 01:01:01.000001'::interval / 13, '5 years 5 mons 5 days 05:05:05'::interval * (g / 97.0), '-3 mons 7 days -00:00:01'::interval / (g + 0.3) from edge, generate_series(1, 40) g where id = 1
! 22012 iv / 0
! 22012 iv / '-0'
! 22008 iv * 'NaN'
! 22008 iv / 'NaN'
! 22008 iv * 1e18
! 22008 '1 day'::interval / '1e-300'
