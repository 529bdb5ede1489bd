# Numeric: value and display scale.
n, n5, nn, big
n + n, n + n5, n + 1, n + 1.500, n + nn
n - n, n - n5, n - 1, nn - n
n * n5, n * 2, n * 1.50, n * n, nn * 2, nn * n
(1 - n5) * n * (1 + n5)
big + 1, big * 2, big - big
n % 3, n5 % 0.3, n % n5 ;; n5 <> 0
nn % 0.7, mod(n, 7)
-2::numeric(12,2), n - -2::numeric(12,2), i4 + -(1.5::numeric(9,4)), -(3::numeric(5,0))
-(1234567890123456789012345678::numeric(38,2)), 2::numeric(6,3) * n, 1 / 3::numeric(8,4)
-n, -nn, -(0.0), +n, abs(n), abs(nn), @n
# All 38 digits, where Spark's own minus and abs keep 34.
-(n * 0 + 123456789012345678901234567890123456.78), abs(n * 0 - 123456789012345678901234567890123456.78)
-(nn * 0 + 12345678901234567890123456789012.345), abs(nn * 0 - 99999999999999999999.123456789012345)
(n * 0 - 123456789012345678901234567890123.78) / 3, (nn * 0 - 99999999999999999999.12345) / -3
-(n * 0 + 12345678901234567890123456789012345) = -12345678901234567890123456789012345, -nn < nn - 1
(n * 0 + 99999999999999999999999999999999999.4)::numeric(35,0), (n * 0 - 99999999999999999999999999999999999.4)::numeric(35,0)
n / 3, n / 7.00, n5 / 3, 1 / 3.0, 10.0 / 4
n / n5 ;; n5 <> 0
n5 / n ;; n <> 0
nn / 3, 100 / nn ;; nn <> 0
nn / nn ;; nn <> 0
nn / n ;; n <> 0
i4 / 3.0, i8 / 7.0, 1.0 / i4 ;; i4 <> 0
n / i8 ;; i8 <> 0
n / 1000000, n / 0.0001, 1 / 9999.0, 1 / 10000.0, 1/10001.0, 2 / 3.0000000000000000000
1.0 / 7, 22.0 / 7, 12345678.0 / 9, 0.0 / 3, 1e-5 / 3, 5e10 / 3
n / 9999, n / -9999.99, n / 10000.01, n5 / 99999999, n / 12345678901234.5, n / 0.00009999, -n / 0.0001
0.01 / n, 9999 / n, 10000 / n, 99999999.99 / n, i4 / n, i8 / n ;; n <> 0
n::numeric(20,4) / n5::numeric(15,8), n::numeric(17,0) / n5, big / 3, big / n5 ;; n5 <> 0 and abs(big) < 1e29
(case when id > 0 then null::numeric(5,2) end) / (id - id), n / 3 is null, 0.00 / (id + n5)
(nn * 1e-25) * 1e-25, -(nn * 1e-30), (f8 / '1e100'::float8)::numeric ;; id in (1, 2, 3, 7)
n / 3 * 3, n / 3 + 1, n / 3 / 7, (n / 3) * (n5 / 7) ;; n > 5 and n < 100
(n / 3) / (n / 7) ;; n <> 0
n / 3 - n / 7, n / 3 = n / 3, n / 3 > 1
round(n / 3, 2), round(n), round(n, 1), round(n, -1), round(n, 0), round(n, 5), round(nn, 3), round(nn)
round(2.5), round(-2.5), round(0.5), round(-0.05, 1), round(1.005, 2), round(nn, -3), round(n5, 3)
trunc(n), trunc(n, 1), trunc(n, -1), trunc(nn, 2), trunc(n5, 4), trunc(-1.999, 2), trunc(n, 4), trunc(n5), trunc(nn, -2)
ceil(n), floor(n), ceil(nn), floor(nn), ceiling(n5), floor(n5), sign(n), sign(nn), sign(-0.0)
scale(n), scale(nn), scale(n / 3), scale(null::numeric)
n = 0, n <> 0, n < 0, n <= 0, n > 0, n >= 0
n = n5, n < n5, nn = n, nn > 1, nn <> nn, n = 10.250, n in (10.25, 0.01), n in (1, 2, -3), nn in (12.3450, -1)
nn = any (array[12.345, 1.1]), n <> all (array[1.0, 10.25])
n = i4, n < i8, i8 = 3.0, i4 > 1.5, i2 <= 0.5
n::int ;; abs(n) < 1000000
n::bigint, n::smallint ;; abs(n) < 1000
2.5::int, 3.5::int, (-2.5)::int, 0.49::int, nn::bigint
n::numeric(10,1) ;; abs(n) < 1000
n::numeric(20,4), n::numeric, nn::numeric(20,2), n5::numeric(3,0) ;; abs(n5) < 100
nn::numeric(30,10), n::numeric(5,-1) ;; abs(n) < 1000
0.05::numeric(2,2), i4::numeric, i8::numeric, i2::numeric, i4::numeric(20,3), i8::numeric(30,2)
n::float8, nn::float8, n::real, n5::real, 0.1::real
n::text, nn::text, n5::text, (n / 3)::text, (nn * 2)::text, 0.00::text, (-0.10)::text
coalesce(n, 0), coalesce(n, 0.000), coalesce(nn, 1), coalesce(nn, n), coalesce(n, i4)
case when i4 > 0 then n when i4 = 0 then n5 else 1 end
case when i4 > 0 then nn else 0.00 end
case when i4 > 0 then n / 3 end
greatest(n, n5, 1), least(n, n5), greatest(nn, 1.100), least(1.10, nn), greatest(1.0, 1.00), least(1.00, 1.0), greatest(nn)
nullif(n, 10.25), nullif(nn, 1.1), nullif(n / 3, 1)
n is distinct from 10.250, nn is not distinct from 1.1, nn is null, n / 3 is null
1.5, -0.001, 12345678901234567890.123456789, 0.0000000001, 100., 1e3
! 22012 n / 0
! 22012 n / (n - n)
! 22012 (n - n) / (n5 - n5)
! 22012 n % 0
! 22012 nn / 0.0
! 22003 n::int
! 22003 n::smallint
! 22003 n::numeric(5,2)
! 22003 big::bigint
! 22003 99.995::numeric(4,2) + n
! 22003 n::numeric(3,-1)
? sqrt(n)
? n ^ 2
? ln(n)
? exp(n)
? log(n)
? div(n, 2)
? 'NaN'::numeric + n
? round(n, i4)

