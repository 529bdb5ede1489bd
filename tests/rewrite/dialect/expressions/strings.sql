# Functions of text.
s || t, s || 'x', s || v, v || c, c || 'x', s || nam, 'a' || 1, i4 || 'b', b || 'c', s || b, s || n, n || s, s || nn, s || d, s || u, s || i8
s || null, null || s
length(s), length(c), length(v), char_length(s), character_length(v), length(t), length(by)
octet_length(s), octet_length(c), octet_length(by), bit_length(s), bit_length(by)
lower(s), upper(s), lower(v), upper(c), upper(nam), lower(t), upper('ßİǆﬁΑΣıſ'), lower('ßİǅΑΣIKÅ')
lower('ABC' collate "C"), upper('äbc' collate "C")
initcap(s) ;; id <> 4
initcap('hELLO wORLD-foo_bar 1a a1b'), initcap('')
substring(s, 1, 3), substring(s, 2), substring(s, 0, 3), substring(s, -1, 4), substring(s, -5, 3), substring(s, 3, 100), substring(s, 100), substring(s, -3), substring(s from 2 for 0)
substr(s, 2, 3), substr(s, i2::int, 3), substr(s, i2::int), substring(s, 2, abs(i2::int)), substring(s, i4, 2147483647), substr(s, -2147483648, 2147483647)
substring(v from 2 for 2), substring(c, 2, 3)
left(s, 3), left(s, -2), left(s, 0), left(s, 100), left(s, -100), left(s, i2), left(s, -2147483648)
right(s, 3), right(s, -2), right(s, 0), right(s, 100), right(s, -100), right(s, i2), right(s, -2147483648), right(s, null)
left('abc', i2), right('abc', i2), right(t, i2) is null
lpad(s, 8), lpad(s, 8, 'xy'), lpad(s, 2), lpad(s, 0), lpad(s, -1), lpad(s, 8, ''), lpad(s, 3, ''), lpad(t, 5, 'ß'), lpad(s, i2::int % 10, '*'), lpad(s, 8, null), lpad(s, null)
rpad(s, 8), rpad(s, 8, 'xy'), rpad(s, 2), rpad(s, 0), rpad(s, -1), rpad(s, 8, ''), rpad(s, 3, ''), rpad(t, 5, 'ß'), rpad(s, i2::int % 10, '*')
trim(s), ltrim(s), rtrim(s), btrim(s), trim(both from s), trim(leading from s), trim(trailing from s)
trim(both 'ho' from s), ltrim(s, 'h '), rtrim(s, 'o '), btrim(s, 'helo'), btrim(s, ''), btrim(s, t), trim(E'\t\n' from s), trim(c), rtrim(c), ltrim(s, s)
replace(s, 'l', 'L'), replace(s, 'l', ''), replace(s, '', 'x'), replace(s, t, 'Z'), replace(s, 'll', 'lll'), replace(s, 'o', null)
translate(s, 'lo', 'xy'), translate(s, 'lo', 'x'), translate(s, '', 'x'), translate(s, 'll', 'xy'), translate(s, 'ßü', 'su')
position('l' in s), position('' in s), position(t in s), strpos(s, 'o'), strpos(s, ''), strpos('', ''), strpos('', 'a'), strpos(s, '😀'), strpos(v, 'o')
repeat(s, 2), repeat(s, 0), repeat(s, -1), repeat(t, 3), repeat(s, i2::int % 3)
reverse(s), reverse(t)
concat(s, t, v), concat(s, null, i4), concat(b, n, d), concat(c, '|'), concat(nn, i8, u), concat(null), concat(ti, '|', by)
concat_ws(',', s, t, v), concat_ws('-', i4, null, b), concat_ws(null, s), concat_ws(t, s, v), concat_ws(',', null), concat_ws('', s, c)
split_part(s, ' ', 1), split_part(s, ' ', 2), split_part(s, 'l', -1), split_part(s, '', 1), split_part(s, '', 2), split_part(s, '', -1), split_part(s, 'xx', 1), split_part(s, 'xx', 2), split_part('', ',', 1), split_part(s, ' ', -3), split_part('a,b,,c', ',', 3), split_part(s, t, 2), split_part('aaa', 'aa', 2), split_part(s, '.', 1)
starts_with(s, 'h'), starts_with(s, t), s ^@ 'Hello', starts_with(s, '')
overlay(s placing 'XX' from 2 for 3), overlay(s placing t from 1), overlay(s placing '' from 3 for 100)
md5(s), md5(by), md5('')
ascii(s), ascii(t), ascii(''), ascii('😀')
chr(65279), chr(65), chr(8364), chr(128512), chr(100 + i2) ;; i2 between -50 and 100
to_hex(i4), to_hex(i8), to_hex(255)
s like 'h%', s like '%o', s like '%l%', s like '_e%', s like 'hello', s like '', s like '%', s not like 'h%', s like '100\%%', s like '%\_a%', s like '%\\b', s like t, s like v || '%'
s like '100\%\_a\\b', s like 'h\el%', s like '%😀', s like '%_😀', s like E'tab%line', s like '%x%' escape 'x', s like '100#%#_a%' escape '#', s like '%\b' escape ''
v like 'f%', c like 'ab', c like 'ab%', c like 'ab    ', c like '%o%', nam like 'n%', c not like 'a%', nam not like 'n%'
s ilike 'H%', s ilike '%WORLD%', s not ilike 'h%', s ilike 'ä%', v ilike 'GRÖSSE', v ilike 'GRÖßE', s ilike '%UEÜ%', s ilike t || '%'
s ~ '^h', s ~ 'o$', s ~ 'l+', s ~ '^[a-z]+$', s ~ 'a|b', s !~ 'h', s ~ '(foo|ll)', s ~ '^.{5}$', s ~ '\.', s ~ '^\d+', s ~ '[^a-z]', s ~* 'HELLO', s !~* 'WORLD', s ~ 'tab.new', s ~ 'line$', s ~ '^new', nam ~ '^n', nam !~ 'a'
s = '', s <> '', s < 'b', s <= 'hello', s > 'Z', s >= '~', s = t, s < t
v = 'foo', v <> 'foo', v < 'g', v in ('foo', 'World'), s in ('hello', ''), s not in ('hello', ''), s = any (array['hello', 'x']), s = any (sarr), s like any (array['h%', '%o'])
c = 'ab', c = 'ab   ', c <> 'ab', c < 'b', c <= 'ab', c > 'ab', c >= 'é', c = v::char(10), c = s::char(3), c in ('ab', 'foo'), c not in ('ab ', 'z'), 'ab'::char(20) = c, c = E'a\t', c < E'a\t', c > 'a', c = c, c = ''
c::text = 'ab', c::varchar = 'ab ', c::text || '|', c = any (array['ab', 'z']::bpchar[]), c < c::char(1)
nam = 'nam', nam = v, nam <> 'x', nam < 'z', nam <= 'foo', nam > 'foo', nam >= 'foo', v = nam, s <> nam, s < nam, s <= nam, s > nam, s >= nam, nam <> s, nam < s, nam <= s, nam > s, nam >= s
ch = 'x', ch <> 'x', ch < 'b', ch <= 'f', ch > 'f', ch >= '~'
by = '\x61', by <> '\x', by < '\x61', by <= '\x61', by > '\x01', by >= '\xdeadbeef', by || '\x00'
u = '12345678-1234-1234-1234-123456789abc', u <> 'a0eebc999c0b4ef8bb6d6bb9bd380a11', u < 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', u <= 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', u > '00000000-0000-0000-0000-00000000000f', u >= 'ffffffff-ffff-ffff-ffff-ffffffffffff', u in ('00000000-0000-0000-0000-000000000000')
'it''s', 'back\slash', 'a${spark.master}b', '${x}', E'new\nline\ttab', '--', '/* */', 'ünï😀', '{{x}}', '%s', '\n', '\u0041', '${', '$${a}}'
'a''b' || E'\\''' || s
greatest(s, t), least(s, t, 'm'), greatest(c, 'b'), least(c, 'ab'), coalesce(s, 'none'), nullif(s, ''), nullif(c, 'ab'), greatest(v, null), coalesce(c, 'x')
s is null, s is not null, s is distinct from t, c is distinct from 'ab', s is not distinct from null
case s when 'hello' then 1 when '' then 2 else 3 end, case when s like 'h%' then s else v end, case c when 'ab' then 'yes' else 'no' end
! 22011 substring(s, 1, -1)
! 22011 substring(s, i4, i4) ;; i4 < 0 and i4 > -100
! 22011 overlay(s placing 'x' from 0)
! 22003 overlay(s placing 'x' from 2147483647)
! 22003 overlay(s placing 'x' from 2147483647 for i4) ;; i4 = 2
! 22023 split_part(s, ' ', 0)
! 22023 split_part(s, ' ', i4)
! 22023 chr(i4)
! 54000 chr(55296 + i2) ;; i2 = 2
! 54000 chr(1114112 + i2) ;; i2 = 2
! 54000 chr(0)
? format('%s', s)
? quote_literal(s)
regexp_replace(s, 'a', 'b'), regexp_replace(s, 'l', 'L', 'g'), regexp_replace(s, 'L', '[\&]', 'gi'), regexp_replace(s, 'L', '', 'i'), regexp_replace(s, '^h', 'J'), regexp_replace(s, 'o$', '0')
regexp_replace(s, '[^a-z]', '', 'g'), regexp_replace(s, '\s+', ' ', 'g'), regexp_replace(s, '\S', 'x', 'g'), regexp_replace(s, '\d+', '#', 'g'), regexp_replace(s, '\D', '', 'g'), regexp_replace(s, '[\s,]+', '_', 'g')
regexp_replace(s, '(.)(l+)', '\2\1'), regexp_replace(s, '(e)(.)', '<\2$1\\\1>', 'g'), regexp_replace(s, '(h?)e', '\1\1', 'g'), regexp_replace(s, '.', '\&\&', 'g'), regexp_replace(s, 'hello|world', 'x', 'g'), regexp_replace(s, 'l', '\x$0')
substring(s from 'l+'), substring(s from 'h(.)l'), substring(s from '[a-z]+$'), substring(v from '^[^ ]+'), substring(c from '(b) *$'), substring(s from '.{2,3}o?'), substring(s, 'nothing')
regexp_substr(s, 'e(l)'), regexp_count(s, 'l'), regexp_count(s, '[aeiou]'), regexp_match(s, '(h)(e?)'), regexp_match(s, 'l+'), (regexp_match(s, '(.)(.)'))[2], regexp_split_to_array(s, '[lo]'), regexp_split_to_array(s, '\s+')
s ~ '\s', s ~ '^\S+$', s ~ '[\s.]', s ~ '[^\s\d]', s !~ '\D'
regexp_replace(s, '(h)(e)(l)(l)(o?)( ?)', '0\6\1'), regexp_replace(s, '(h)(e)(l)(l)(o?)( ?)', '\60', 'g'), regexp_replace(s, '[^H-O]', '-', 'gi'), regexp_replace(s, 'e', '\&0')
? regexp_replace(s, '(h)(e)(l)(l)(o?)( ?)(.?)', '0')
? regexp_replace(s, 'a*', 'b')
? regexp_replace(s, 'a|ab', 'b')
? regexp_replace(s, '(a|b)+', 'b')
? regexp_replace(s, '(ab)?c', 'b')
? regexp_replace(s, 'a', 'b', 'n')
? regexp_replace(s, 'a', '\1')
? regexp_replace(s, 'a', 'b', 2)
? regexp_replace(s, t, 'b')
? regexp_replace(s, 'a', t)
? regexp_replace(s, '\w', 'b')
? regexp_replace(s, 'a{2,1}', 'b')
? substring(s from '(a')
? s ~ '[\s-z]'
? s ~ '\mfoo'
? s ~ '(a)\1'
? s ~ t
? s ~ 'a*?'
? s similar to 'a%'
? to_char(n, '999')
? to_char(i4, '999')
? encode(by, 'base64')
s like 'abc\', s not like 'abc\'
! 22025 s like '%\'
! 22025 s not like 'hell\'
s like t, s not like t, s like s, s like s || '%', s like '%' || t || '%', s like left(s, 1) || '_%', s ilike upper(s), s ilike '%' || t
s like '%' || left(s, 1) || '%%' || right(s, 1), s like '%' || replace(s, 'l', '_') || '%_%', s like replace(s, 'l', '\l'), s like replace(s, 'l', '\_')
s || '%_.^$*+?()[]{}|Q\E\Q#&' like '%' || '\%\_.^$*+?()[]{}|Q\\E\\Q#&' || left(s, 0), s || '\' like s || '_', s || 'x' like s || '\x', s || 'x' like '%\x' || left(s, 0)
s like 'abc\\' || left(s, 0) || '\', s not like s || 'x\', s like t || '\'
! 22025 s like left(s, 1) || '%\'
! 22025 s like left(s, 0) || '%\'
string_to_array(s, ' '), string_to_array(s, 'l'), string_to_array(s, '.'), string_to_array(s, '%_'), string_to_array('', ','), string_to_array('a,b,,c,', ',')
encode(by, 'hex'), encode(by, 'HEX')
? string_to_array(s, t)
? string_to_array(s, null)
? string_to_array(s, '')
regexp_like(s, 'l+o'), regexp_like(t, '^[a-z]'), regexp_like(v, 'W|f'), regexp_like(null, 'a')
? regexp_like(s, t)
? regexp_like(s, 'a', 'i')
