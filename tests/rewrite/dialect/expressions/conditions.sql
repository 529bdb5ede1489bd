# Three-valued logic, tests, CASE.
b and true, b and false, b and null, b or true, b or false, b or null, not b, not (b and null)
(b or i4 > 0) and not (i8 > 0 or b), b and b or b, (b and b) = b
b = true, b <> true, b < true, b <= false, b > false, b >= true, b = (i4 > 0)
b is true, b is not true, b is false, b is not false, b is unknown, b is not unknown, (i4 > 0) is true, (i4 > 0) is unknown
i4 is null, i4 is not null, (i4 + 1 ) is null ;; i4 < 1000
i4 is distinct from 2, i4 is not distinct from null, i4 is distinct from i2, f8 is distinct from 'NaN', b is distinct from null, d is distinct from ts::date
case when i4 > 0 then 'pos' when i4 < 0 then 'neg' end, case when i4 > 0 then 1 else 2.5 end, case i4 when 2 then 'two' when null then 'null' else 'other' end
case when b then i4 else i8 end, case when null then 1 else 2 end, case when b then null else 'x' end, case when b then null end is null
case when i4 <> 0 then 100 / i4 else 0 end
case i4 when 0 then null else 1 / i4::float8 end
coalesce(i4, 0), coalesce(null, i4, 5), coalesce(i4, i8), coalesce(b, false), coalesce(d, '2000-01-01'), coalesce(ts, tz), coalesce(null, null) is null, coalesce(f4, f8), coalesce(arr, '{}')
nullif(i4, 2), nullif(i4, i2), nullif(d, '2024-02-29'), nullif(b, true), nullif(f8, 'NaN')
greatest(i4, 5), least(i4, 5), greatest(i4, null), greatest(i4, i8), least(d, '2000-01-01'), greatest(f8, 0), least(f8, 0), greatest(b, false), greatest(ts, '2020-01-01'), least(iv, '1 day'), greatest(iv, '40 days'), greatest(u, '12345678-1234-1234-1234-123456789abc')
(i4, s) < (2, 'm'), (i4, s) <= (2, 'hello'), (i4, i8) > (2, 2), (i4, n, s) >= (2, 10.25, 'a'), (i4, s) = (2, 'hello'), (i4, s) <> (2, 'hello')
(i4, null::int) < (2, 3), (null::int, i4) < (1, 2)
i4 between 0 and 100, i4 not between 0 and 100, i4 between symmetric 100 and 0, s between 'a' and 'i'
arr[1], arr[2], arr[0], arr[-1], arr[100], arr[i2 % 3 + 1], sarr[1]
array_length(arr, 1), array_length(sarr, 1), cardinality(arr), array_upper(arr, 1), array_lower(arr, 1)
arr = array[1,2,3], arr <> array[1,2,3], arr = arr, sarr = array['a','b'], arr is null
array[i4, 5], array[s, t], array[i4::bigint, i8], array[n, 1.50], array[d], array[]::int[]
arr || 4, 0 || arr, arr || arr, arr || null::int[], array_append(arr, i4), array_prepend(i4, arr), array_cat(arr, '{9}')
array_to_string(arr, ','), array_to_string(sarr, '-'), array_to_string(sarr, ', ', '*'), array_to_string(arr, '', 'x'), array_to_string(arr, null), array_to_string(sarr, ',', null)
arr::bigint[], arr::text[], sarr::varchar[], arr::float8[], arr::smallint[], array[1.5, 2.5]::int[]
current_user is null, session_user is null, current_schema is null, current_catalog is null, current_role is null, user is null
current_database() is null, current_schema() is null, "current_user"() is null, "session_user"() is null
? row(i4, s) is null
? arr[1:2]
? arr < array[5]
arr @> array[1], arr @> '{}', arr @> array[null]::int[], arr @> array[1, null], arr <@ array[1,2,3,7], arr && array[3, 9], arr && '{}', arr && array[null]::int[], arr @> arr, arr && arr, arr @> null
sarr @> array['a'], sarr <@ array['a','b','x'], sarr && array['x','foo'], array[i4, i2::int] @> array[2], array[s, t] && sarr, array[u, null] @> array[u], array[d, ts::date] && array[d]
array_position(arr, 1), array_position(arr, 5), array_position(arr, null), array_position(sarr, 'b'), array_position(sarr, s), array_position(array[i4, i2::int], i2::int), array_position(null::int[], 1), array_remove(arr, 1), array_remove(arr, null), array_remove(sarr, 'a'), array_remove(arr, i2::int), array_remove(null::int[], 1)
? array[f8] @> array[f8]
? array_position(array[n], n)
? array_position(arr, 1, 2)
? array[[1,2],[3,4]]
? js -> 'a'
? js::text::json ->> 'a'
? js::jsonb = '1'::jsonb
? pg_sleep(1)
? txid_current()
? clock_timestamp()
? generate_series(1, i4)
