-- Series of statements that come to tiered tables in some way, one to a line, parted by " ;; ", and what the gateway does:
-- it answers as PostgreSQL does (same), or refuses the last one that it comes to (refused).

same: SELECT count(*) FROM t
same: TABLE t
same: SELECT t FROM t WHERE id=1
same: SELECT (t).v FROM t WHERE id=1
same: SELECT t.*::text FROM t WHERE id=1
same: SELECT (t.*) IS NULL FROM t WHERE id=1
same: SELECT row(t.*) FROM t WHERE id=2
same: SELECT to_jsonb(t) FROM t WHERE id=2
same: SELECT row_to_json(t) FROM t WHERE id=2
same: SELECT count(*) FROM ONLY t
refused: SELECT count(*) FROM t TABLESAMPLE SYSTEM (100)
refused: SELECT count(*) FROM t TABLESAMPLE BERNOULLI (100)
same: SELECT count(*) FROM over_t
same: SELECT count(*), sum(w) FROM over_over_t
same: SELECT count(*) FROM barrier
same: SELECT count(*) FROM checked
same: SELECT count(*) FROM whole
same: SELECT count(*) FROM part_1
same: SELECT count(*) FROM part_2
refused: SELECT count(*) FROM ONLY whole
same: SELECT count(*) FROM over_whole
same: SELECT r.id, (SELECT max(v) FROM t WHERE t.id > r.id) FROM r
same: SELECT count(*) FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.id=r.id)
same: SELECT count(*) FROM r WHERE id IN (SELECT id FROM t)
same: SELECT count(*) FROM r, LATERAL (SELECT * FROM t WHERE t.id=r.id) x
same: SELECT ARRAY(SELECT id FROM t ORDER BY 1)
same: SELECT array_agg(id ORDER BY id) FROM t
same: SELECT (SELECT count(*) FROM t)
same: SELECT (SELECT count(*) FROM over_t), (SELECT count(*) FROM r)
same: WITH x AS (SELECT * FROM t) SELECT count(*) FROM x
same: WITH RECURSIVE x(n) AS (SELECT min(id) FROM t UNION ALL SELECT n+1 FROM x WHERE n < (SELECT max(id) FROM t)) SELECT count(*) FROM x
same: SELECT v, count(*) FROM t GROUP BY GROUPING SETS ((v),())
same: SELECT v%3, count(*) FROM t GROUP BY ROLLUP(v%3)
same: SELECT count(*) FROM t GROUP BY CUBE(v%2, id%2)
same: SELECT id FROM t FOR UPDATE
same: SELECT id FROM t WHERE id=3 FOR UPDATE
same: SELECT id FROM t WHERE id=3 FOR SHARE OF t
same: SELECT t.id FROM t, r WHERE t.id=r.id FOR UPDATE OF r
same: SELECT t.id FROM t, r WHERE t.id=r.id FOR UPDATE OF t SKIP LOCKED
same: SELECT id FROM over_t WHERE id=3 FOR UPDATE
same: CREATE TABLE x AS SELECT * FROM t ;; SELECT count(*) FROM x
same: CREATE TABLE x AS TABLE t ;; SELECT count(*) FROM x
same: CREATE TEMP TABLE x AS SELECT * FROM over_t ;; SELECT count(*) FROM x
same: SELECT * INTO x FROM t ;; SELECT count(*) FROM x
same: SELECT * INTO TEMP x FROM over_t ;; SELECT count(*) FROM x
same: DECLARE c CURSOR FOR SELECT count(*) FROM t ;; FETCH ALL FROM c
same: DECLARE c CURSOR FOR SELECT id FROM over_t ORDER BY id ;; FETCH 3 FROM c
same: DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY id ;; FETCH 3 FROM c ;; FETCH PRIOR FROM c
same: DECLARE c CURSOR WITH HOLD FOR SELECT count(*) FROM t ;; FETCH ALL FROM c
refused: DECLARE c CURSOR FOR SELECT id FROM t WHERE id<3 FOR UPDATE ;; FETCH 1 FROM c ;; UPDATE t SET v=0 WHERE CURRENT OF c ;; SELECT v FROM t WHERE id=1
same: CREATE VIEW nv AS SELECT count(*) FROM t ;; SELECT * FROM nv
same: CREATE TEMP VIEW nv AS SELECT count(*) FROM t ;; SELECT * FROM nv
same: CREATE VIEW nv AS SELECT (SELECT max(v) FROM t) AS m, id FROM r ;; SELECT * FROM nv
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM t; END ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM t) ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM over_t) ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM "t"); END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM U&"\0074"); END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'DECLARE n bigint; BEGIN EXECUTE ''SELECT count(*) FROM '' || ''t'' INTO n; RETURN n; END' ;; SELECT f()
same: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'DECLARE n bigint; BEGIN EX' || 'ECUTE 1; END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS SETOF over_t LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT * FROM over_t; END' ;; SELECT count(*) FROM f()
refused: CREATE FUNCTION f() RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN QUERY EXECUTE $q$SELECT id FROM t$q$; END' ;; SELECT count(*) FROM f()
refused: CREATE FUNCTION f(refcursor) RETURNS refcursor LANGUAGE plpgsql AS 'BEGIN OPEN $1 FOR SELECT count(*) FROM t; RETURN $1; END' ;; SELECT f('c') ;; FETCH ALL FROM c
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'DECLARE x t%ROWTYPE; BEGIN SELECT * INTO x FROM t LIMIT 1; RETURN x.v; END' ;; SELECT f()
same: CREATE FUNCTION f(x int DEFAULT (SELECT 1)) RETURNS int LANGUAGE sql AS 'SELECT 1'
same: CREATE FUNCTION f(x t) RETURNS int LANGUAGE sql AS 'SELECT x.v' ;; SELECT sum(f(t)) FROM t
same: CREATE FUNCTION f(x t) RETURNS int LANGUAGE sql AS 'SELECT ($1).v' ;; SELECT sum(t.f) FROM t
same: CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x+1' ;; SELECT sum(f(id)) FROM t
same: CREATE FUNCTION f(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN x+1; END' ;; SELECT sum(f(id)) FROM t
same: CREATE FUNCTION f(x int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN x+1; END' ;; UPDATE t SET v=f(v) WHERE id=3 ;; SELECT v FROM t WHERE id=3
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 3; END' ;; UPDATE t SET v=1 WHERE id=f() ;; SELECT v FROM t WHERE id=3
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 3; END' ;; DELETE FROM t WHERE id=f() ;; SELECT count(*) FROM t
same: CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (i,1); RETURN i; END' ;; SELECT sum(f(id)) FROM t ;; SELECT count(*) FROM log
same: CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (i,1); RETURN i; END' ;; INSERT INTO r SELECT f(id)+100 FROM t ;; SELECT count(*) FROM log
same: CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (i,1); RETURN i; END' ;; INSERT INTO t SELECT f(id)+100 FROM r ;; SELECT count(*) FROM log ;; SELECT count(*) FROM t
same: CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (i,1); RETURN i; END' ;; INSERT INTO t VALUES (f(101)) ;; SELECT count(*) FROM log ;; SELECT count(*) FROM t
same: CREATE AGGREGATE a(int) (sfunc=int4pl, stype=int, initcond='0') ;; SELECT a(id) FROM t
same: CREATE FUNCTION g(int,int) RETURNS int LANGUAGE sql AS 'SELECT $1+$2' ;; CREATE OPERATOR @+@ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; SELECT sum(id @+@ v) FROM t
refused: CREATE PROCEDURE p() LANGUAGE sql AS 'DELETE FROM t' ;; CALL p() ;; SELECT count(*) FROM t
refused: CREATE PROCEDURE p(OUT n bigint) LANGUAGE plpgsql AS 'BEGIN n := (SELECT count(*) FROM t); END' ;; CALL p(null)
same: CREATE PROCEDURE p(OUT n bigint) LANGUAGE plpgsql AS 'BEGIN n := (SELECT count(*) FROM r); END' ;; CALL p(null)
same: CREATE PROCEDURE p(n bigint) LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (n,1); END' ;; CALL p((SELECT count(*) FROM t)) ;; SELECT * FROM log
refused: DO 'BEGIN INSERT INTO log SELECT id, s FROM t; END' ;; SELECT count(*) FROM log
refused: DO 'BEGIN UPDATE over_t SET v=0; END' ;; SELECT sum(v) FROM t
refused: DO 'BEGIN DELETE FROM "t"; END' ;; SELECT count(*) FROM t
refused: DO 'DECLARE c CURSOR FOR SELECT * FROM T; BEGIN FOR x IN c LOOP INSERT INTO log VALUES (x.id); END LOOP; END' ;; SELECT count(*) FROM log
refused: DO 'BEGIN EXECUTE ''DELETE FROM t''; EXCEPTION WHEN OTHERS THEN NULL; END' ;; SELECT count(*) FROM t
same: DO 'BEGIN PERFORM 1; EXCEPTION WHEN OTHERS THEN NULL; END' ;; SELECT count(*) FROM t
refused: DO 'BEGIN DELETE FROM whole; END' ;; SELECT count(*) FROM whole
refused: DO 'BEGIN UPDATE over_whole SET v=1; END' ;; SELECT sum(v) FROM whole
refused: DO LANGUAGE plpgsql 'BEGIN DELETE FROM public.t; END' ;; SELECT count(*) FROM t
same: DO 'BEGIN INSERT INTO log SELECT count(*) FROM t_journal; END' ;; SELECT * FROM log
refused: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (new.id,1); RETURN new; END' ;; CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION trf()
refused: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log SELECT count(*) FROM t; RETURN new; END' ;; CREATE TRIGGER tr AFTER INSERT ON r FOR EACH ROW EXECUTE FUNCTION trf() ;; INSERT INTO r VALUES (99) ;; SELECT * FROM log
same: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log SELECT id FROM n; RETURN new; END' ;; CREATE TRIGGER tr AFTER INSERT ON r REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION trf() ;; INSERT INTO r SELECT id+100 FROM t ;; SELECT count(*) FROM log
same: CREATE TRIGGER tr INSTEAD OF UPDATE ON over_t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
refused: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (old.id,1); RETURN new; END' ;; CREATE TRIGGER tr INSTEAD OF UPDATE ON over_t FOR EACH ROW EXECUTE FUNCTION trf() ;; UPDATE over_t SET v=1 ;; SELECT count(*) FROM log
refused: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (old.id,1); RETURN old; END' ;; CREATE TRIGGER tr INSTEAD OF DELETE ON over_over_t FOR EACH ROW EXECUTE FUNCTION trf() ;; DELETE FROM over_over_t ;; SELECT count(*) FROM log
refused: CREATE RULE ru AS ON INSERT TO r DO ALSO INSERT INTO log SELECT id FROM t ;; INSERT INTO r VALUES (99) ;; SELECT count(*) FROM log
refused: CREATE RULE ru AS ON INSERT TO t DO INSTEAD NOTHING ;; INSERT INTO t VALUES (99) ;; SELECT count(*) FROM t
same: CREATE RULE ru AS ON UPDATE TO over_t DO INSTEAD UPDATE r SET v=0 ;; UPDATE over_t SET v=1 ;; SELECT sum(v) FROM r
refused: CREATE RULE ru AS ON INSERT TO log WHERE EXISTS (SELECT 1 FROM t) DO INSTEAD NOTHING ;; INSERT INTO log VALUES (1) ;; SELECT count(*) FROM log
refused: CREATE RULE ru AS ON INSERT TO log DO ALSO DELETE FROM t ;; INSERT INTO log VALUES (1) ;; SELECT count(*) FROM t
same: UPDATE over_t SET v=v+1 ;; SELECT sum(v) FROM t
same: UPDATE barrier SET v=v+1 WHERE id=9 ;; SELECT sum(v) FROM t
same: UPDATE checked SET v=1 WHERE id=9
same: DELETE FROM over_over_t WHERE w>50 ;; SELECT count(*) FROM t
same: INSERT INTO over_t VALUES (100,1,'x') ;; SELECT count(*) FROM t
same: INSERT INTO checked VALUES (100,1,'x')
same: INSERT INTO over_t VALUES (3,1,'x')
same: INSERT INTO over_t VALUES (3,1,'x') ON CONFLICT (id) DO UPDATE SET v=EXCLUDED.v ;; SELECT v FROM t WHERE id=3
same: INSERT INTO t VALUES (3,1) ON CONFLICT DO NOTHING ;; SELECT v FROM t WHERE id=3
same: INSERT INTO t VALUES (3,1) RETURNING (SELECT count(*) FROM t)
same: INSERT INTO t VALUES (300,1) RETURNING (SELECT count(*) FROM t)
same: UPDATE t SET v=0 WHERE id=3 RETURNING id, (SELECT sum(v) FROM t), (SELECT count(*) FROM r)
same: DELETE FROM t WHERE id=3 RETURNING (SELECT count(*) FROM over_t)
same: INSERT INTO r VALUES (300,1) RETURNING (SELECT count(*) FROM t)
same: UPDATE r SET v=(SELECT max(v) FROM t) RETURNING v
same: UPDATE r SET (v,s)=(SELECT v,s FROM t WHERE t.id=r.id) RETURNING *
same: UPDATE r SET v=t.v+1 FROM t WHERE t.id=r.id RETURNING r.*
same: UPDATE t SET v=r.v+1 FROM r WHERE t.id=r.id RETURNING t.id, t.v, r.v
same: DELETE FROM r USING t WHERE t.id=r.id RETURNING r.id
same: DELETE FROM t USING r WHERE t.id=r.id RETURNING t.id
same: DELETE FROM t WHERE v > (SELECT avg(v) FROM t) RETURNING id
same: DELETE FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.id=r.id+18) RETURNING id
same: MERGE INTO t USING r ON t.id=r.id WHEN MATCHED THEN UPDATE SET v=-1 WHEN NOT MATCHED THEN DO NOTHING RETURNING merge_action(), t.id
same: MERGE INTO r USING t ON t.id=r.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (t.id,t.v,t.s) RETURNING merge_action(), r.id
same: MERGE INTO r USING (SELECT * FROM over_t) x ON x.id=r.id WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (x.id) ;; SELECT count(*) FROM r
same: MERGE INTO t USING (VALUES (3),(400)) x(i) ON t.id=x.i WHEN MATCHED AND (SELECT count(*) FROM t)=20 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (x.i,(SELECT max(v) FROM t)) RETURNING t.*
same: MERGE INTO t USING r ON t.id=r.id WHEN NOT MATCHED BY SOURCE THEN DELETE ;; SELECT count(*) FROM t
same: WITH d AS (DELETE FROM t WHERE id=3 RETURNING *) SELECT * FROM d, (SELECT count(*) FROM t) x
same: WITH d AS (DELETE FROM t RETURNING *) INSERT INTO log SELECT id FROM d ;; SELECT count(*) FROM log
same: WITH d AS (INSERT INTO r SELECT id+100 FROM t RETURNING *) SELECT count(*) FROM d
same: WITH d AS (UPDATE r SET v=0 RETURNING *) SELECT count(*) FROM d JOIN t ON t.id=d.id
same: WITH d AS (UPDATE t SET v=0 WHERE id<4 RETURNING *) UPDATE r SET v=d.v FROM d WHERE d.id=r.id RETURNING r.id
same: WITH d AS (INSERT INTO t VALUES (900) RETURNING id) SELECT (SELECT count(*) FROM t), id FROM d
same: INSERT INTO log SELECT id,s FROM t ;; SELECT count(*) FROM log
same: INSERT INTO log SELECT id,s FROM over_over_t, LATERAL (SELECT s FROM t WHERE t.id=over_over_t.id) z ;; SELECT count(*) FROM log
same: INSERT INTO log VALUES ((SELECT count(*) FROM t)) ;; SELECT id FROM log
same: INSERT INTO t SELECT id+100,v,s FROM t ;; SELECT count(*) FROM t
same: CREATE TABLE c (id int REFERENCES t) ;; INSERT INTO c VALUES (3) ;; SELECT * FROM c
same: CREATE TABLE c (id int REFERENCES t) ;; INSERT INTO c VALUES (333)
same: CREATE TABLE c (id int REFERENCES t ON DELETE CASCADE) ;; INSERT INTO c VALUES (3),(4) ;; DELETE FROM t WHERE id=3 ;; SELECT * FROM c
same: CREATE TABLE c (id int REFERENCES t ON UPDATE CASCADE) ;; INSERT INTO c VALUES (3),(4) ;; UPDATE t SET id=33 WHERE id=3 ;; SELECT * FROM c
same: CREATE TABLE c (id int REFERENCES t ON DELETE SET NULL) ;; INSERT INTO c VALUES (3),(4) ;; DELETE FROM t ;; SELECT * FROM c
same: CREATE TABLE c (id int REFERENCES t) ;; INSERT INTO c VALUES (3) ;; DELETE FROM t WHERE id=3
same: CREATE TABLE c (id int REFERENCES t) ;; INSERT INTO c SELECT id FROM t ;; TRUNCATE t
same: CREATE TABLE c (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED) ;; INSERT INTO c VALUES (333) ;; SET CONSTRAINTS ALL IMMEDIATE
same: CREATE TABLE c (id int) ;; INSERT INTO c VALUES (3),(333) ;; ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES t
refused: CREATE TABLE c (id int) ;; INSERT INTO c VALUES (3) ;; ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES t NOT VALID ;; ALTER TABLE c VALIDATE CONSTRAINT c_id_fkey ;; INSERT INTO c VALUES (44)
same: ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES r
refused: ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES r NOT VALID ;; ALTER TABLE t VALIDATE CONSTRAINT t_id_fkey
same: ALTER TABLE t ADD CHECK (v<50)
same: ALTER TABLE t ADD CHECK (v<5000) ;; INSERT INTO t VALUES (78,5000)
refused: ALTER TABLE t ADD CHECK (v<50) NOT VALID ;; ALTER TABLE t VALIDATE CONSTRAINT t_v_check
same: ALTER TABLE t ADD UNIQUE (s) ;; INSERT INTO t VALUES (55,5,'t5')
same: ALTER TABLE t ADD COLUMN z int DEFAULT 7 ;; SELECT sum(z) FROM t
refused: ALTER TABLE t ADD COLUMN z int GENERATED ALWAYS AS (v+1) STORED ;; SELECT sum(z) FROM t
refused: ALTER TABLE t ADD COLUMN z int GENERATED ALWAYS AS IDENTITY ;; SELECT sum(z) FROM t
refused: ALTER TABLE t ADD COLUMN z serial ;; SELECT sum(z) FROM t
refused: ALTER TABLE t ADD COLUMN z float DEFAULT random() ;; SELECT count(z) FROM t
same: ALTER TABLE t ALTER v TYPE bigint ;; SELECT sum(v) FROM t
same: ALTER TABLE t ALTER v TYPE text USING v||'x' ;; SELECT max(v) FROM t
same: ALTER TABLE t ALTER v SET NOT NULL ;; SELECT count(*) FROM t
same: UPDATE t SET v=NULL WHERE id=3 ;; ALTER TABLE t ALTER v SET NOT NULL
same: ALTER TABLE t RENAME TO t9 ;; SELECT count(*) FROM t9
same: ALTER TABLE t RENAME COLUMN v TO w ;; SELECT sum(w) FROM t
same: ALTER TABLE t SET SCHEMA pg_temp
same: CREATE SCHEMA sc ;; ALTER TABLE t SET SCHEMA sc ;; SELECT count(*) FROM sc.t
same: ALTER TABLE t DROP CONSTRAINT t_pkey ;; SELECT count(*) FROM t ;; INSERT INTO t VALUES (3) ;; SELECT count(*) FROM t WHERE id=3
same: CREATE UNIQUE INDEX ON t (v) ;; INSERT INTO t VALUES (77,50)
refused: CREATE TABLE kid () INHERITS (t) ;; INSERT INTO kid VALUES (99) ;; SELECT count(*) FROM t
same: CREATE TABLE l (LIKE t INCLUDING ALL) ;; SELECT count(*) FROM l
refused: CREATE TABLE pp (LIKE t) PARTITION BY RANGE (id) ;; ALTER TABLE pp ATTACH PARTITION t FOR VALUES FROM (0) TO (10)
refused: CREATE TABLE pp (id int NOT NULL,v int,s text) PARTITION BY RANGE (id) ;; ALTER TABLE pp ATTACH PARTITION t FOR VALUES FROM (0) TO (100) ;; SELECT count(*) FROM pp
same: ALTER TABLE whole DETACH PARTITION part_2 ;; SELECT count(*) FROM part_2
same: CREATE TABLE prd PARTITION OF whole DEFAULT ;; SELECT count(*) FROM whole
same: UPDATE whole SET id=id+100 WHERE id=50 ;; SELECT count(*) FROM part_2
same: UPDATE whole SET v=-v ;; SELECT sum(v) FROM whole
same: DELETE FROM whole WHERE id>95 ;; SELECT count(*) FROM whole
same: INSERT INTO whole VALUES (160,1) ;; SELECT count(*) FROM part_2
same: TRUNCATE whole ;; SELECT count(*) FROM whole
same: TRUNCATE t ;; SELECT count(*) FROM t
same: TRUNCATE t, r ;; SELECT (SELECT count(*) FROM t)+(SELECT count(*) FROM r)
same: CREATE TABLE d (id int DEFAULT 1, n int DEFAULT (SELECT 1))
same: CREATE DOMAIN dm AS int CHECK (VALUE IN (SELECT id FROM t))
refused: CREATE FUNCTION ok(int) RETURNS bool LANGUAGE sql AS 'SELECT EXISTS (SELECT 1 FROM t WHERE id=$1)' ;; CREATE DOMAIN dm AS int CHECK (ok(VALUE)) ;; SELECT 3::dm
refused: CREATE FUNCTION ok(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN EXISTS (SELECT 1 FROM over_t WHERE id=$1); END' ;; CREATE TABLE d (id int CHECK (ok(id))) ;; INSERT INTO d VALUES (3)
refused: CREATE POLICY po ON r USING (EXISTS (SELECT 1 FROM t WHERE t.id=r.id))
refused: ALTER TABLE t ENABLE ROW LEVEL SECURITY ;; SELECT count(*) FROM t
same: SELECT tableoid::regclass FROM t WHERE id=1
refused: SELECT tableoid::regclass, count(*) FROM whole GROUP BY 1
same: SELECT reltuples > 5 FROM pg_class WHERE relname='r' AND false
same: SELECT pg_notify('x', (SELECT count(*) FROM t)::text)
same: SELECT set_config('a.b', (SELECT count(*) FROM t)::text, true) ;; SELECT current_setting('a.b')
same: SELECT setval('r_s', (SELECT max(id) FROM t))
same: CREATE SEQUENCE sq ;; SELECT setval('sq', (SELECT max(id) FROM t)) ;; SELECT nextval('sq')
same: CREATE SEQUENCE sq ;; SELECT sum(nextval('sq')) FROM t ;; SELECT currval('sq')
same: CREATE SEQUENCE sq ;; INSERT INTO log SELECT nextval('sq') FROM t ;; SELECT max(id) FROM log
same: SELECT generate_series(1, (SELECT count(*) FROM t)) LIMIT 100
same: SELECT * FROM generate_series(1, (SELECT max(id) FROM t)) g
same: SELECT unnest(ARRAY(SELECT id FROM t))
same: SELECT * FROM json_each((SELECT json_object_agg(id,v) FROM t)) LIMIT 1000
same: SELECT count(*) FROM ROWS FROM (generate_series(1,(SELECT count(*) FROM t)::int), generate_series(1,3)) x(a,b)
same: SELECT json_agg(t ORDER BY id) FROM t WHERE id<3
same: SELECT count(DISTINCT t) FROM t
same: SELECT t = t FROM t WHERE id=1
same: SELECT max(t.id) FROM t NATURAL JOIN r
same: SELECT count(*) FROM t t1 FULL JOIN r USING (id)
same: SELECT count(*) FROM (VALUES ((SELECT max(id) FROM t))) x(a) WHERE a=20
same: VALUES ((SELECT count(*) FROM t))
same: SELECT 1 WHERE (SELECT count(*) FROM t)=20
same: SELECT 1 LIMIT (SELECT count(*) FROM t)
same: SELECT id FROM r ORDER BY (SELECT v FROM t WHERE t.id=r.id) DESC LIMIT 1
same: SELECT CASE WHEN EXISTS (SELECT FROM t) THEN 1 ELSE 0 END
same: SELECT count(*) FROM r UNION ALL SELECT count(*) FROM t
same: SELECT id FROM r EXCEPT SELECT id FROM t
same: SELECT id FROM t INTERSECT SELECT id FROM r
same: SELECT count(*) OVER (), id FROM t WHERE id<3
same: SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES
same: SELECT DISTINCT ON (v%3) id FROM t ORDER BY v%3, id
same: SELECT count(*) FROM public.t
same: SELECT count(*) FROM T
same: SELECT count(*) FROM "t" AS "T"
same: SELECT count(*) FROM t x(a,b,c) WHERE x.a=1
same: SELECT x.* FROM (t JOIN r USING (id)) x WHERE id=1
same: CREATE TEMP TABLE t (id int) ;; SELECT count(*) FROM t ;; SELECT count(*) FROM public.t ;; DROP TABLE pg_temp.t ;; SELECT count(*) FROM t
same: CREATE SCHEMA s2 ;; CREATE TABLE s2.t (id int) ;; SET LOCAL search_path = s2, public ;; SELECT count(*) FROM t ;; SET LOCAL search_path = public ;; SELECT count(*) FROM t
same: SAVEPOINT a ;; UPDATE t SET v=0 WHERE id=3 ;; ROLLBACK TO a ;; UPDATE t SET v=v+1 WHERE id=3 RETURNING v
same: SAVEPOINT a ;; DELETE FROM t WHERE id=3 ;; ROLLBACK TO a ;; INSERT INTO t VALUES (3) ON CONFLICT (id) DO UPDATE SET v=-3 RETURNING v
same: UPDATE t SET id=id+1000 WHERE id=3 ;; INSERT INTO t VALUES (3,3) ;; SELECT sum(id) FROM t
same: UPDATE t SET id=4 WHERE id=3
same: UPDATE t SET id=id+1 ;; SELECT sum(id) FROM t
same: INSERT INTO t VALUES (500),(500)
same: INSERT INTO t VALUES (501),(3)
same: SELECT relname FROM pg_class WHERE oid = (SELECT tableoid FROM t LIMIT 1)
same: CREATE TABLE a AS SELECT 1 AS x ;; INSERT INTO a SELECT count(*) FROM t ;; SELECT sum(x) FROM a
same: CREATE INDEX ON r ((v+1)) ;; SELECT count(*) FROM r JOIN t USING (id)
same: CREATE VIEW tv2 AS TABLE t ;; CREATE OR REPLACE VIEW tv2 AS SELECT id,v,s FROM r ;; SELECT count(*) FROM tv2
same: CREATE OR REPLACE VIEW over_t AS SELECT id, v, s FROM r ;; SELECT count(*) FROM over_over_t
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM over_t' ;; SELECT f()
same: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM vtemp'
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE VIEW later AS SELECT * FROM t ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t8); END' ;; ALTER TABLE t RENAME TO t8 ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE TEMP VIEW later AS SELECT * FROM t ;; SELECT f()
refused: CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; SELECT pg_temp.f()
refused: CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE TEMP VIEW later AS SELECT * FROM t ;; SELECT pg_temp.f()
same: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE RULE "_RETURN" AS ON SELECT TO log DO INSTEAD SELECT id, s FROM t
same: CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END' ;; CREATE CONSTRAINT TRIGGER ct AFTER INSERT ON r FROM t DEFERRABLE FOR EACH ROW EXECUTE FUNCTION tf()
refused: CREATE TABLE w (x t) ;; INSERT INTO w SELECT t FROM t ;; SELECT count(*) FROM w
refused: CREATE TABLE w (x t[]) ;; INSERT INTO w SELECT array_agg(t) FROM t ;; SELECT cardinality(x) FROM w
same: CREATE TYPE ty AS (a int) ;; SELECT count(row(id)::ty) FROM t
same: SELECT (t).* FROM (SELECT t FROM t WHERE id=2) q
same: SELECT json_populate_record(NULL::t, '{"id":1,"v":5}')
same: SELECT * FROM json_populate_recordset(NULL::t, (SELECT json_agg(t) FROM t)) LIMIT 0
same: SELECT NULL::t IS NULL
same: SELECT jsonb_path_query_first((SELECT jsonb_agg(to_jsonb(t)) FROM t), '$[0].v') IS NOT NULL
same: CREATE STATISTICS st ON id, v FROM t ;; SELECT count(*) FROM t
same: COMMENT ON TABLE t IS 'x' ;; SELECT count(*) FROM t
same: GRANT SELECT ON t TO PUBLIC ;; SELECT count(*) FROM t
same: LOCK TABLE t ;; SELECT count(*) FROM t
same: SET TRANSACTION ISOLATION LEVEL REPEATABLE READ ;; SELECT count(*) FROM t ;; UPDATE t SET v=1 WHERE id=2 ;; SELECT sum(v) FROM t
same: SET TRANSACTION ISOLATION LEVEL SERIALIZABLE ;; SELECT count(*) FROM t ;; INSERT INTO t VALUES (777,1) ;; SELECT count(*) FROM t
same: SET TRANSACTION READ ONLY ;; SELECT count(*) FROM t
same: SET TRANSACTION READ ONLY ;; UPDATE t SET v=1 WHERE id=2
same: SET LOCAL enable_seqscan=off ;; SELECT count(*) FROM t
same: SET LOCAL constraint_exclusion=on ;; SELECT count(*) FROM t WHERE id<0
same: SET LOCAL transform_null_equals=on ;; SELECT count(*) FROM t WHERE v = NULL
same: SET LOCAL transform_null_equals=on ;; UPDATE t SET v=NULL WHERE id=1 ;; SELECT count(*) FROM t WHERE v = NULL
same: SET LOCAL array_nulls=off ;; SELECT '{NULL}'::text[] FROM t WHERE id=1
same: SET LOCAL datestyle='German' ;; SELECT date '2001-02-03'::text FROM t WHERE id=1
same: SET LOCAL intervalstyle='iso_8601' ;; SELECT interval '1 day 2 hours'::text FROM t WHERE id=1
same: SET LOCAL extra_float_digits=-5 ;; SELECT (id/3.0::float8)::text FROM t WHERE id=1
same: SET LOCAL bytea_output='escape' ;; SELECT s::bytea::text FROM t WHERE id=1
same: SET LOCAL backslash_quote=off ;; SELECT count(*) FROM t WHERE s <> E'\\'
same: SET LOCAL quote_all_identifiers=on ;; SELECT count(*) FROM over_t
same: SET LOCAL from_collapse_limit=1 ;; SELECT count(*) FROM t, r
same: SET LOCAL row_security=off ;; SELECT count(*) FROM t
same: SET LOCAL default_transaction_isolation='serializable' ;; SELECT count(*) FROM t
same: SET LOCAL timezone='Asia/Tokyo' ;; SELECT timestamptz '2001-01-01 00:00+00'::text FROM t WHERE id=1
refused: DO 'BEGIN DELETE FROM parent WHERE id=3; END' ;; SELECT count(*) FROM child
refused: DO 'BEGIN UPDATE parent SET id=id+100 WHERE id=3; END' ;; SELECT count(*) FROM child WHERE p=103
same: DO 'BEGIN INSERT INTO referencing VALUES (1,3); END' ;; SELECT count(*) FROM referencing
same: DO 'BEGIN TRUNCATE parent; END'
same: DO 'BEGIN DROP TABLE parent CASCADE; END' ;; SELECT count(*) FROM child
refused: DO 'BEGIN MERGE INTO parent USING (VALUES (3)) x(i) ON parent.id=x.i WHEN MATCHED THEN DELETE; END' ;; SELECT count(*) FROM child
refused: DO 'BEGIN LOCK TABLE parent; DELETE FROM parent WHERE id=5; INSERT INTO parent VALUES (5); END' ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN 1; END' ;; SELECT f() ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'DELETE FROM parent WHERE id=3' ;; SELECT f() ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f() RETURNS void LANGUAGE sql BEGIN ATOMIC DELETE FROM parent WHERE id=3; END ;; SELECT f() ;; SELECT count(*) FROM child
refused: CREATE PROCEDURE f() LANGUAGE sql AS 'UPDATE parent SET id=id+100' ;; CALL f() ;; SELECT count(*) FROM child WHERE p>100
same: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO referencing VALUES (1,3); RETURN 1; END' ;; SELECT f() ;; SELECT count(*) FROM referencing
refused: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=new.id; RETURN NULL; END' ;; CREATE TRIGGER g AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION trf() ;; INSERT INTO log VALUES (3) ;; SELECT count(*) FROM child
refused: CREATE FUNCTION trf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=new.id; RETURN NULL; END' ;; CREATE CONSTRAINT TRIGGER g AFTER INSERT ON log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trf() ;; INSERT INTO log VALUES (3) ;; SET CONSTRAINTS ALL IMMEDIATE ;; SELECT count(*) FROM child
same: CREATE RULE g AS ON INSERT TO log DO ALSO DELETE FROM parent WHERE id=new.id ;; INSERT INTO log VALUES (3) ;; SELECT count(*) FROM child
same: CREATE RULE g AS ON INSERT TO log DO ALSO INSERT INTO referencing VALUES (9,333) ;; INSERT INTO log VALUES (3)
same: WITH d AS (DELETE FROM parent WHERE id=3 RETURNING id) SELECT count(*) FROM d ;; SELECT count(*) FROM child
refused: WITH d AS (DELETE FROM parent WHERE id=3 RETURNING id) SELECT (SELECT count(*) FROM child) FROM d
same: WITH d AS (INSERT INTO referencing VALUES (1,3) RETURNING id) SELECT * FROM d
same: WITH d AS (INSERT INTO referencing VALUES (1,333) RETURNING id) SELECT * FROM d
same: DELETE FROM parent WHERE id=3 ;; SELECT count(*) FROM child
refused: DELETE FROM parent USING child WHERE child.p=parent.id ;; SELECT count(*) FROM child
same: UPDATE parent SET id=id+100 ;; SELECT sum(p) FROM child
same: INSERT INTO child VALUES (99, 333)
same: INSERT INTO child VALUES (99, 3) ;; SELECT count(*) FROM child
same: UPDATE child SET p=333 WHERE id=3
same: INSERT INTO referencing SELECT id, id FROM t ;; SELECT count(*) FROM referencing
same: INSERT INTO referencing SELECT id, id+15 FROM t
refused: UPDATE referencing SET p=(SELECT max(id) FROM t) ;; SELECT sum(p) FROM referencing
same: DELETE FROM t WHERE id=2
same: DELETE FROM t WHERE id=7 ;; SELECT count(*) FROM t
same: UPDATE t SET id=222 WHERE id=2
same: TRUNCATE parent CASCADE ;; SELECT count(*) FROM child
same: TRUNCATE t CASCADE ;; SELECT count(*) FROM referencing
same: DROP TABLE parent CASCADE ;; SELECT count(*) FROM child
same: MERGE INTO parent USING (VALUES (3)) x(i) ON parent.id=x.i WHEN MATCHED THEN DELETE ;; SELECT count(*) FROM child
same: INSERT INTO parent VALUES (3) ON CONFLICT (id) DO UPDATE SET id=303 ;; SELECT sum(p) FROM child
same: CREATE VIEW pv AS SELECT * FROM parent ;; DELETE FROM pv WHERE id=3 ;; SELECT count(*) FROM child
same: SAVEPOINT a ;; DELETE FROM parent WHERE id=3 ;; ROLLBACK TO a ;; SELECT count(*) FROM child
same: SET CONSTRAINTS ALL DEFERRED ;; DELETE FROM t WHERE id=4 ;; SET CONSTRAINTS ALL IMMEDIATE
same: CREATE TEMP TABLE x AS SELECT 3 AS id ;; DELETE FROM parent USING x WHERE x.id=parent.id ;; SELECT count(*) FROM child
refused: CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN 1; END' ;; SELECT pg_temp.f() ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1; END' ;; UPDATE r SET v=f(v) WHERE id=1 ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1; END' ;; CREATE TABLE d (x int DEFAULT f(1)) ;; INSERT INTO d DEFAULT VALUES ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1; END' ;; CREATE TABLE d (x int CHECK (f(x)>0)) ;; INSERT INTO d VALUES (1) ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1; END' ;; DECLARE c CURSOR FOR SELECT f(1) ;; FETCH c ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1; END' ;; SELECT count(f(id)), (SELECT count(*) FROM child) FROM r
same: DECLARE c CURSOR FOR SELECT id FROM parent FOR UPDATE ;; FETCH c ;; DELETE FROM parent WHERE CURRENT OF c ;; SELECT count(*) FROM child
same: DECLARE c CURSOR FOR SELECT id FROM referencing FOR UPDATE ;; FETCH c ;; UPDATE referencing SET p=333 WHERE CURRENT OF c
refused: ALTER TABLE parent ALTER id TYPE bigint ;; SELECT count(*) FROM child
same: ALTER TABLE parent DISABLE TRIGGER USER ;; DELETE FROM parent WHERE id=3 ;; SELECT count(*) FROM child
same: ALTER TABLE referencing DROP CONSTRAINT kidr_p_fkey ;; INSERT INTO referencing VALUES (1,333) ;; ALTER TABLE referencing ADD FOREIGN KEY (p) REFERENCES t
same: ALTER TABLE parent RENAME TO par9 ;; DELETE FROM par9 WHERE id=3 ;; SELECT count(*) FROM child
same: CREATE OR REPLACE VIEW over_t AS SELECT id, v, s FROM r ;; DO 'BEGIN DELETE FROM over_t; END' ;; SELECT count(*) FROM r
same: CREATE VIEW cc AS SELECT (SELECT count(*) FROM child) AS n, id FROM parent ;; SELECT sum(n) FROM cc
refused: CREATE VIEW cc AS SELECT id FROM parent ;; CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM cc); END' ;; CREATE OR REPLACE VIEW cc AS SELECT id FROM t ;; SELECT f()
refused: CREATE VIEW c1 AS SELECT id FROM parent ;; CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM c2); END' ;; CREATE VIEW c3 AS SELECT id FROM t ;; ALTER VIEW c3 RENAME TO c2 ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM c2); END' ;; CREATE TEMP VIEW c3 AS SELECT id FROM t ;; ALTER VIEW c3 RENAME TO c2 ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM c2); END' ;; CREATE TEMP VIEW c3 AS SELECT id FROM t ;; ALTER TABLE c3 RENAME TO c2 ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM c2); END' ;; CREATE VIEW c3 AS SELECT id FROM t ;; ALTER TABLE c3 RENAME TO c2 ;; SELECT f()
refused: CREATE TEMP VIEW c4 AS SELECT id FROM r ;; CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM c4); END' ;; CREATE OR REPLACE TEMP VIEW c4 AS SELECT id FROM t ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS SETOF record LANGUAGE plpgsql AS 'BEGIN RETURN QUERY TABLE t ; END' ;; SELECT count(*) FROM f() AS x(id int, v int, s text)
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'DECLARE n bigint = 0; x record; BEGIN FOR x IN SELECT * FROM "t" LOOP n:=n+1; END LOOP; RETURN n; END' ;; SELECT f()
same: CREATE FUNCTION f(c refcursor) RETURNS text LANGUAGE plpgsql AS 'DECLARE x record; BEGIN FETCH c INTO x; RETURN x::text; END' ;; DECLARE cu CURSOR FOR SELECT id FROM r ;; SELECT f('cu') IS NOT NULL
same: CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT currval('sq')::text $$
same: CREATE FUNCTION "t"(int) RETURNS int LANGUAGE sql AS 'SELECT $1' ;; SELECT "t"(1)
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM/**/t/**/); END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM T); END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM (SELECT t.id FROM public . t) x); END $$ ;; SELECT f()
refused: DO 'BEGIN DELETE FROM parent; EXCEPTION WHEN OTHERS THEN NULL; END' ;; SELECT count(*) FROM parent
refused: CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent; EXCEPTION WHEN OTHERS OR feature_not_supported THEN NULL; END' ;; SELECT f()
refused: DO 'BEGIN UPDATE parent SET id = id + 100; EXCEPTION WHEN SQLSTATE ''0A000'' THEN NULL; END'
same: PREPARE one AS SELECT count(*) FROM t ;; EXECUTE one
same: PREPARE one (int) AS SELECT count(*) FROM t WHERE id < $1 ;; CREATE TEMP TABLE counted AS EXECUTE one (3) ;; SELECT * FROM counted
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'DECLARE n int; BEGIN EXECUTE ''SELECT count(*) FROM '' || ''t'' INTO n; RETURN n; END' ;; PREPARE one (int) AS SELECT $1 ;; EXECUTE one (f())
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'DECLARE n int; BEGIN EXECUTE ''SELECT count(*) FROM '' || ''t'' INTO n; RETURN n; END' ;; PREPARE one (int) AS SELECT count(*) FROM t WHERE id = $1 ;; EXECUTE one (f())
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; PREPARE one (int) AS SELECT count(*) FROM t WHERE id = $1 ;; EXECUTE one (f())
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; PREPARE one (int) AS SELECT count(*) FROM t WHERE id = $1 ;; EXPLAIN EXECUTE one (f())
refused: CREATE MATERIALIZED VIEW m AS SELECT * FROM over_t WITH NO DATA ;; REFRESH MATERIALIZED VIEW m
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM "a""É$"); END'
refused: DO 'BEGIN DELETE FROM "a""É$"; END'
same: SELECT count(*) FROM "a""É$"
refused: CREATE FUNCTION f(int) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT s FROM t WHERE id=$1); END' ;; CREATE TYPE wrapped AS (a int) ;; CREATE FUNCTION g(wrapped) RETURNS text LANGUAGE sql AS 'SELECT f($1.a)' ;; CREATE CAST (wrapped AS text) WITH FUNCTION g(wrapped) ;; SELECT row(3)::wrapped::text
refused: CREATE TYPE wrapped AS (a int) ;; CREATE FUNCTION g(wrapped) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM over_t' ;; CREATE CAST (wrapped AS bigint) WITH FUNCTION g(wrapped) AS ASSIGNMENT ;; CREATE TABLE n (b bigint) ;; INSERT INTO n VALUES (row(1)::wrapped)
refused: CREATE TYPE wrapped AS (a int) ;; CREATE FUNCTION g(wrapped) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; CREATE CAST (wrapped AS bigint) WITH FUNCTION g(wrapped) AS IMPLICIT ;; SELECT abs(row(1)::wrapped)
refused: CREATE FUNCTION step(bigint, int) RETURNS bigint LANGUAGE sql AS 'SELECT $1 + (SELECT count(*) FROM t WHERE id = $2)' ;; CREATE AGGREGATE counted(int) (sfunc=step, stype=bigint, initcond='0') ;; SELECT counted(id) FROM r
refused: CREATE FUNCTION step(bigint, int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN $1 + (SELECT count(*) FROM t); END' ;; CREATE AGGREGATE counted(int) (sfunc=step, stype=bigint, initcond='0') ;; SELECT counted(id) OVER (ORDER BY id) FROM r
refused: CREATE FUNCTION last(bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN $1 + (SELECT max(v) FROM over_t); END' ;; CREATE AGGREGATE summed(int) (sfunc=int4_sum, stype=bigint, finalfunc=last) ;; SELECT summed(id) FROM r
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; CREATE TABLE d (id int, n bigint DEFAULT f()) ;; INSERT INTO d (id) VALUES (1) ;; SELECT n FROM d
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT max(id) FROM over_t' ;; CREATE TABLE d (id int) ;; INSERT INTO d VALUES (1) ;; ALTER TABLE d ADD COLUMN n bigint DEFAULT f() ;; SELECT n FROM d
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; ALTER TABLE r ALTER v SET DEFAULT f() ;; INSERT INTO r (id) VALUES (77) ;; SELECT v FROM r WHERE id=77
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN EXISTS (SELECT FROM t WHERE id=$1); END' ;; SELECT count(*) FROM r WHERE f(id)
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE sql STABLE AS 'SELECT $1 IN (SELECT id FROM over_t)' ;; DELETE FROM r WHERE f(id) ;; SELECT count(*) FROM r
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN EXISTS (SELECT FROM t WHERE id=$1); END' ;; SELECT count(*) FROM r GROUP BY v HAVING f(max(id))
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT v FROM t WHERE id=$1); END' ;; CREATE INDEX ON r (f(id)) ;; SELECT count(*) FROM r WHERE f(id) = 30
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT v FROM t WHERE id=$1); END' ;; CREATE INDEX ON r (id) WHERE f(id) > 20 ;; INSERT INTO r VALUES (6)
refused: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT v FROM t WHERE id=$1); END' ;; CREATE TABLE d (id int, n int GENERATED ALWAYS AS (f(id)) STORED) ;; INSERT INTO d VALUES (3) ;; SELECT n FROM d
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN EXISTS (SELECT FROM t WHERE id=$1); END' ;; CREATE TABLE d (id int) ;; ALTER TABLE d ENABLE ROW LEVEL SECURITY ;; ALTER TABLE d FORCE ROW LEVEL SECURITY ;; CREATE POLICY po ON d USING (f(id)) ;; INSERT INTO d VALUES (3)
same: ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC ;; CREATE TABLE d AS SELECT * FROM t ;; SELECT count(*) FROM d ;; SELECT has_table_privilege('public', 'd', 'SELECT')
same: ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC ;; SELECT count(*) FROM t
refused: CREATE TYPE wrapped AS (a int) ;; CREATE FUNCTION g(wrapped) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$1.a; RETURN 1; END' ;; CREATE CAST (wrapped AS int) WITH FUNCTION g(wrapped) ;; SELECT row(3)::wrapped::int ;; SELECT count(*) FROM child
refused: CREATE TYPE wrapped AS (a int) ;; CREATE FUNCTION g(wrapped) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$1.a; RETURN 1; END' ;; CREATE CAST (wrapped AS int) WITH FUNCTION g(wrapped) AS ASSIGNMENT ;; INSERT INTO log (id) VALUES (row(3)::wrapped) ;; SELECT count(*) FROM child
refused: CREATE FUNCTION step(int, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$2; RETURN $1 + 1; END' ;; CREATE AGGREGATE counted(int) (sfunc=step, stype=int, initcond='0') ;; SELECT counted(id) FROM r ;; SELECT count(*) FROM child
refused: CREATE FUNCTION last(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1; END' ;; CREATE AGGREGATE summed(int) (sfunc=int4pl, stype=int, initcond='0', finalfunc=last) ;; SELECT summed(id) FROM r ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$1; RETURN true; END' ;; SELECT count(*) FROM r WHERE f(id) ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$1; RETURN true; END' ;; ALTER TABLE log ADD COLUMN b bool DEFAULT f(3) ;; INSERT INTO log (id) VALUES (1) ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f(int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT count(*) FROM later WHERE id=$1); END' ;; CREATE TABLE d (id int, n bigint GENERATED ALWAYS AS (f(id)) STORED) ;; CREATE VIEW later AS SELECT * FROM t ;; INSERT INTO d VALUES (3) ;; SELECT n FROM d
refused: CREATE FUNCTION f(int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT count(*) FROM later WHERE id=$1); END' ;; CREATE TABLE d (id int) ;; CREATE INDEX ON d (f(id)) ;; CREATE VIEW later AS SELECT * FROM t ;; INSERT INTO d VALUES (3) ;; SELECT count(*) FROM d WHERE f(id) = 1
refused: CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN EXISTS (SELECT FROM later WHERE id=$1); END' ;; CREATE TABLE d (id int) ;; ALTER TABLE d ENABLE ROW LEVEL SECURITY ;; ALTER TABLE d FORCE ROW LEVEL SECURITY ;; CREATE POLICY po ON d USING (f(id)) ;; CREATE VIEW later AS SELECT * FROM t ;; INSERT INTO d VALUES (3) ;; SELECT count(*) FROM d
refused: CREATE FUNCTION step(bigint, int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN $1 + (SELECT count(*) FROM later); END' ;; CREATE AGGREGATE counted(int) (sfunc=step, stype=bigint, initcond='0') ;; CREATE VIEW later AS SELECT * FROM t ;; SELECT counted(id) FROM r
refused: CREATE FUNCTION g(int,int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; CREATE OPERATOR @+@ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; SELECT 1 @+@ 2
refused: CREATE FUNCTION g(int,int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE OPERATOR @+@ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; CREATE VIEW later AS SELECT * FROM t ;; SELECT 1 @+@ 2
refused: CREATE FUNCTION g(int,int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN EXISTS (SELECT FROM over_t WHERE id=$1); END' ;; CREATE OPERATOR ~~~ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; SELECT count(*) FROM r WHERE id ~~~ v
refused: CREATE FUNCTION g(int,int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$1; RETURN true; END' ;; CREATE OPERATOR ~~~ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; SELECT count(*) FROM r WHERE id ~~~ v ;; SELECT count(*) FROM child
refused: CREATE FUNCTION g(int,int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=$1; RETURN true; END' ;; CREATE OPERATOR ~~~ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; SELECT id ~~~ ANY (ARRAY[1]) FROM r WHERE id=1 ;; SELECT count(*) FROM child
refused: CREATE FUNCTION cmp(int,int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN btint4cmp($1,$2) * (SELECT count(*) FROM t); END' ;; CREATE OPERATOR CLASS oc FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(int,int) ;; SELECT 1
same: CREATE FUNCTION cmp(int,int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN btint4cmp($1,$2) * (SELECT count(*) FROM later); END' ;; CREATE OPERATOR CLASS oc FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(int,int) ;; CREATE INDEX ON r (v oc) ;; CREATE VIEW later AS SELECT * FROM t ;; INSERT INTO r VALUES (99, 5)
same: CREATE FUNCTION h(int, int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE OPERATOR CLASS oc FOR TYPE int USING hash AS OPERATOR 1 =, FUNCTION 2 h(int, int8) ;; CREATE TABLE hp (id int) PARTITION BY HASH (id oc) ;; CREATE TABLE hp0 PARTITION OF hp FOR VALUES WITH (MODULUS 2, REMAINDER 0) ;; CREATE VIEW later AS SELECT * FROM t ;; INSERT INTO hp VALUES (1)
refused: CREATE FUNCTION diff(int,int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; CREATE TYPE span AS RANGE (subtype=int, subtype_diff=diff) ;; SELECT span(1,3) && span(2,4)
refused: CREATE FUNCTION diff(int,int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE TYPE span AS RANGE (subtype=int, subtype_diff=diff) ;; CREATE TABLE d (s span) ;; CREATE INDEX ON d USING gist (s) ;; CREATE VIEW later AS SELECT * FROM t ;; INSERT INTO d SELECT span(g,g+2) FROM generate_series(1,500) g
same: CREATE FUNCTION cmp(int,int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM count(*) FROM later; RETURN btint4cmp($1,$2); END' ;; CREATE OPERATOR CLASS oc FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(int,int) ;; CREATE TYPE span AS RANGE (subtype=int, subtype_opclass=oc) ;; CREATE VIEW later AS SELECT * FROM t ;; SELECT span(1,3) && span(2,4)
same: CREATE FUNCTION cmp(int,int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN btint4cmp($1,$2); END' ;; CREATE OPERATOR CLASS oc FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(int,int) ;; CREATE TYPE span AS RANGE (subtype=int, subtype_opclass=oc) ;; SELECT span(1,3) && span(2,4) ;; SELECT count(*) FROM child
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM over_t' ;; SELECT f()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE VIEW later AS SELECT * FROM t ;; SELECT f()
same: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(*) FROM r); END' ;; SELECT f(), (SELECT count(*) FROM t)
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN 1; END' ;; SELECT f() ;; SELECT count(*) FROM child
refused: CREATE SCHEMA s2 ;; CREATE TABLE s2.u (id int) ;; CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql SET search_path = s2, public AS 'BEGIN RETURN (SELECT count(*) FROM u); END' ;; SELECT f() ;; DROP TABLE s2.u ;; ALTER TABLE t RENAME TO u ;; SELECT f()
refused: CREATE PROCEDURE p() LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN INSERT INTO log SELECT count(*) FROM t; END' ;; CALL p()
refused: CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES ((SELECT count(*) FROM over_t)); COMMIT; END' ;; CALL p()
refused: CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; COMMIT; END' ;; CALL p()
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END' ;; COPY (SELECT f()) TO STDOUT
refused: CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE VIEW later AS SELECT * FROM t ;; COPY (SELECT f()) TO STDOUT
refused: CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN 1; END' ;; COPY (SELECT f()) TO STDOUT ;; SELECT count(*) FROM child
same: CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1+1; END' ;; COPY (SELECT sum(f(id)) FROM t) TO STDOUT
same: COPY t TO STDOUT
same: COPY t (v, id) TO STDOUT (FORMAT csv)
same: COPY over_t TO STDOUT
same: COPY whole TO STDOUT
same: COPY part_2 TO STDOUT
same: COPY child TO STDOUT WITH (FORMAT text, DELIMITER '|')
same: COPY (TABLE over_whole) TO STDOUT
same: COPY (SELECT to_jsonb(t) FROM t) TO STDOUT
refused: COPY (SELECT t FROM t WHERE id < 3) TO STDOUT
same: COPY (SELECT r.id, (SELECT max(v) FROM t WHERE t.id > r.id) FROM r) TO STDOUT
refused: COPY (DELETE FROM t WHERE id=3 RETURNING *) TO STDOUT ;; SELECT count(*) FROM t
refused: COPY (UPDATE r SET v=(SELECT max(v) FROM t) RETURNING v) TO STDOUT
refused: COPY (WITH d AS (DELETE FROM parent WHERE id=3 RETURNING id) SELECT * FROM d) TO STDOUT ;; SELECT count(*) FROM child
refused: CREATE FUNCTION g(int,int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM later); END' ;; CREATE OPERATOR @+@ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; CREATE VIEW v AS SELECT id @+@ v AS x FROM r ;; CREATE VIEW later AS SELECT * FROM t ;; SELECT * FROM v
refused: CREATE FUNCTION g(int,int) RETURNS bool LANGUAGE sql AS 'SELECT EXISTS (SELECT FROM t WHERE id=$1)' ;; CREATE OPERATOR ~~~ (LEFTARG=int,RIGHTARG=int,FUNCTION=g) ;; SELECT count(*) FROM r WHERE id ~~~ v
same: CREATE FUNCTION diff(int,int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN DELETE FROM parent WHERE id=3; RETURN $1-$2; END' ;; CREATE TYPE span AS RANGE (subtype=int, subtype_diff=diff) ;; CREATE TABLE d (s span) ;; CREATE INDEX ON d USING gist (s) ;; INSERT INTO d SELECT span(g,g+2) FROM generate_series(1,500) g ;; SELECT count(*) FROM child
