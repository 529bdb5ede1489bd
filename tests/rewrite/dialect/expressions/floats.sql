# Arithmetic, comparison and mathematics of real and double precision.
f8, f4
f8 + 1, f8 - 1, f8 * 2, f8 / 4
f8 + f8, f8 - f8
f8 * f8
f8 / f8 ;; f8 <> 0
f4 + 1::real, f4 - 1::real, f4 * 2::real, f4 / 4::real
f4 + f8, f4 - f8, f4 * f8
f8 + f4, f8 - f4, f8 * f4
f4 / 3::real
f4 / 3::float8
3::float8 / f4 ;; f4 <> 0
f8 / 3::real
0 / f8 ;; f8 <> 0
'NaN'::float8 / i4
'inf'::float8 / f8 ;; f8 <> 0
f8 / 'inf'::float8
-f8, -f4, +f8, +f4, -(0::float8)
abs(f8), abs(f4)
@f8
round(f8), trunc(f8), floor(f8), ceil(f8), ceiling(f8), sign(f8)
round(0.5::float8 + i4), round(-2.5::float8), round(1.5::float8), round(1e18 + 0.5::float8)
trunc(-0.5::float8), ceil(-0.5::float8), floor(0.5::float8), round(-0.4::float8), trunc('1e300'::float8), ceil('-1e300'::float8)
floor(-2.5::float8), ceil(2.000000001::float8), sign(-0.1::float8), sign(0::float8)
sqrt(abs(f8)), sqrt(2::float8), |/ 25::float8
exp(1::float8), exp(f8) ;; f8 between -100 and 100
ln(abs(f8)) ;; f8 <> 0
power(2::float8, f8) ;; f8 between -100 and 100 or f8 = 'inf'
power(f8, 2::float8), power(f8, 0::float8)
power(f8, 2) ;; f8 = f8
1::float8 ^ f8
(-1)::float8 ^ 'inf'::float8
power(abs(f8), 0.5::float8)
pi() + f8, radians(f8), degrees(f8), degrees(0.1::float8 * i4)
f8 = 0, f8 <> 0, f8 < 0, f8 <= 0, f8 > 0, f8 >= 0
f8 = f8, f8 = 'NaN', f8 < 'NaN', f8 > 'Infinity', f8 = '-0', f8 in (2.5, 0)
f4 = 0::real, f4 <> 0::real, f4 < 0::real, f4 <= 0::real, f4 > 0::real, f4 >= 0::real
f4 = f4, f4 = 'NaN'::real, f4 < 'NaN'::real, f4 > 'Infinity'::real
f4 = f8, f4 <> f8, f4 < f8, f4 <= f8, f4 > f8, f4 >= f8
f8 = f4, f8 <> f4, f8 < f4, f8 <= f4, f8 > f4, f8 >= f4
f4 = 0.1, f4 = 0.1::real, f4 < 0.1
f8 = i4, f8 < i8, f8 + i4, f8 * i2, f4 * i2
f8 = n, f8 > n
! 22012 f8 / 0
! 22012 1::float8 / f8
! 22012 f4 / 0::real
! 22003 '1e308'::float8 * (f8 + 10)
! 22003 '1e308'::float8 + f8 * 0 + '1e308' ;; f8 = 2.5
! 22003 '1e-300'::float8 * (f8 * '1e-300') ;; f8 = 2.5
! 22003 '1e38'::real * 10::real + f4
! 22003 '1e300'::float8 / (f8 * '1e-200') ;; f8 = 2.5
! 22003 '1e-300'::float8 / (f8 * '1e200') ;; f8 = 2.5
! 22003 exp(1000::float8 + f8) ;; f8 = 2.5
! 2201F sqrt(f8)
! 2201F power(f8, 0.5::float8)
! 2201F power('-Infinity'::float8 + f8 - f8, 0.5::float8) ;; f8 = 2.5
! 2201F ('-Infinity'::float8 + f8 - f8) ^ (-1.5)::float8 ;; f8 = 2.5
! 2201F power(f8 - f8, -1::float8) ;; f8 = 2.5
! 2201E ln(f8)
! 2201E ln(f8 - f8) ;; f8 = 2.5
log(abs(f8)), log10(abs(f8)) ;; f8 <> 0
cbrt(f8), atan(f8), atan2(f8, 2::float8)
sin(f8), cos(f8), tan(f8) ;; abs(f8) < 1e6
asin(f8 / 10), acos(f8 / 10) ;; abs(f8) <= 10
asin('NaN'::float8), acos(0.5::float8), sin('NaN'::float8), cbrt(-27::float8)
f8::numeric, f4::numeric, round(f8::numeric, 2), f8::numeric(20,3) ;; abs(f8) < 1e30 and f4 > -1000 and f4 < 1000
0.1::float8::numeric, 1e22::float8::numeric, 123456789012345678::float8::numeric, 1.5e-7::float8::numeric, (1::float8 / 3)::numeric, 100::float8::numeric, (0.1::float8 + 0.2)::numeric, 0.30000001::real::numeric, 16777216::real::numeric, 1e10::real::numeric, 0::float8::numeric, (-0.5)::float8::numeric
! 2201E log(f8)
! 22003 sin(f8)
! 22003 asin(f8)
? sinh(f8)
? sind(f8)
? random() * f8
