# Operators and functions of smallint, integer and bigint. A line is one expression over "edge";
# ";;" starts a condition; "! SQLSTATE" expects an error; "?" is refused by the compiler.
i2 + 1::smallint ;; i2 < 32767
i2 + i4 ;; abs(i4::bigint) < 1000000
i4 + i2 ;; abs(i4::bigint) < 1000000
i4 + i4 ;; abs(i4::bigint) < 1000000
i4 + i8 ;; abs(i8::numeric) < 1e15
i8 + i4 ;; abs(i8::numeric) < 1e15
i2 + i8 ;; abs(i8::numeric) < 1e15
i8 + i2 ;; abs(i8::numeric) < 1e15
i8 + i8 ;; abs(i8::numeric) < 1e15
i2 - 1::smallint ;; i2 > -32768
i2 - i4 ;; abs(i4::bigint) < 1000000
i4 - i2 ;; abs(i4::bigint) < 1000000
i4 - (i4 - 1) ;; abs(i4::bigint) < 1000000
i4 - i8 ;; abs(i8::numeric) < 1e15
i8 - i4 ;; abs(i8::numeric) < 1e15
i2 - i8 ;; abs(i8::numeric) < 1e15
i8 - i2 ;; abs(i8::numeric) < 1e15
i8 - i8
i2 * 2::smallint ;; abs(i2::int) < 1000
i2 * i4 ;; abs(i4::bigint) < 1000
i4 * i2 ;; abs(i4::bigint) < 1000
i4 * i4 ;; abs(i4::bigint) < 1000
i4 * i8 ;; abs(i8::numeric) < 1e10
i8 * i4 ;; abs(i8::numeric) < 1e10
i2 * i8 ;; abs(i8::numeric) < 1e10
i8 * i2 ;; abs(i8::numeric) < 1e10
i8 * i8 ;; abs(i8::numeric) < 1e9
i2 / 2::smallint
i2 / -3::smallint
i2 / 7
i4 / 7::smallint
i4 / 7
i4 / -2
-7 / 2 + i4 * 0
i4 / 3::bigint
i8 / 3
i8 / 7::smallint
i2 / 7::bigint
i8 / -2::bigint
i2 % 5::smallint
i4 % 7
i4 % -7
i8 % 10::bigint
i4 % -1
mod(i8, 3)
-i2 ;; i2 > -32768
-i4 ;; i4 > -2147483648
-i8 ;; i8 > -9223372036854775808
+i2
+i4
+i8
- (-i4) ;; i4 > -2147483648
abs(i2) ;; i2 > -32768
abs(i4) ;; i4 > -2147483648
abs(i8) ;; i8 > -9223372036854775808
i2 & 6::smallint
i4 & 255
i8 & 255::bigint
i2 | 6::smallint
i4 | 256
i8 | 1::bigint
i2 # 3::smallint
i4 # 3
i8 # 3::bigint
~i2
~i4
~i8
2147483647
-2147483648
9223372036854775807
-9223372036854775808
(-32768)::smallint
(i4 + 1) * 2 - i2 / 2 % 3 ;; abs(i4::bigint) < 1000000
1 - (2 - i4) ;; abs(i4::bigint) < 1000000
! 22003 i4 + 2147483647
! 22003 i4 - 2147483647
! 22003 i4 * i4
! 22003 i2 + i2
! 22003 i2 * i2
! 22003 i8 + i8
! 22003 i8 * i8
! 22003 -i4
! 22003 -i2
! 22003 abs(i8)
! 22003 i4 / -1
! 22003 i2 / (-1)::smallint
! 22003 i8 / -1
! 22012 i4 / 0
! 22012 i4 / i4
! 22012 i8 / (i8 - i8)
! 22012 i4 % 0
! 22012 i8 % i8
! 22012 i2 % i2
# Comparisons of every pair of integer types.
i2 = 0::smallint, i2 <> 0::smallint, i2 < 0::smallint, i2 <= 0::smallint, i2 > 0::smallint, i2 >= 0::smallint
i4 = 0, i4 <> 0, i4 < 0, i4 <= 0, i4 > 0, i4 >= 0
i8 = 0::bigint, i8 <> 0::bigint, i8 < 0::bigint, i8 <= 0::bigint, i8 > 0::bigint, i8 >= 0::bigint
i2 = i4, i2 <> i4, i2 < i4, i2 <= i4, i2 > i4, i2 >= i4
i4 = i2, i4 <> i2, i4 < i2, i4 <= i2, i4 > i2, i4 >= i2
i2 = i8, i2 <> i8, i2 < i8, i2 <= i8, i2 > i8, i2 >= i8
i8 = i2, i8 <> i2, i8 < i2, i8 <= i2, i8 > i2, i8 >= i2
i4 = i8, i4 <> i8, i4 < i8, i4 <= i8, i4 > i8, i4 >= i8
i8 = i4, i8 <> i4, i8 < i4, i8 <= i4, i8 > i4, i8 >= i4
o = 1::oid, o <> 1::oid, o < 12::oid, o <= 12::oid, o > 12::oid, o >= 12::oid
i4 in (1, 2, 100), i4 not in (1, 2), i4 in (1, null), i4 not in (2, null), i8 in (3, -9), i2 in (1, 12)
i4 = any (array[1, 2, 3]), i4 <> all (array[2, 3]), i4 > any (array[1, 50]), i4 < all (array[1, 50, null]), i4 = any ('{}'::int[]), i4 = all ('{}'::int[])
i4 = any (arr), i4 > all (arr), i4 <> all (arr), i4 < any (arr), 1 = any (arr), null::int = any (arr)
? gcd(i4, 4)
i4 << 1, i4 >> 1, i4 << 33, i4 >> 40, i4 << -1, i8 << 3, i8 >> 60, i8 << 64, i4 << i2, i8 >> i2
? i2 << 1
