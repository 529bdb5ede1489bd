create table t (k int primary key, v int, w int, d timestamptz);
create table s (k int primary key, v int);
