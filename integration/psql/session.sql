-- A session as a person has it: definitions, rows, mistakes, and a look at what there is.
\set ON_ERROR_STOP 0
\pset null '(null)'
CREATE SCHEMA hr;
SET search_path = hr;
CREATE TABLE depts (
    deptno integer PRIMARY KEY,
    department_name varchar(40) NOT NULL DEFAULT 'unnamed',
    budget numeric(12,2) CHECK (budget >= 0)
);
COMMENT ON TABLE depts IS 'departments';
COMMENT ON COLUMN depts.budget IS 'in euros';
CREATE TABLE staff (id serial, name text, deptno integer, born date, active boolean DEFAULT true);
CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, twice integer, note text);
CREATE INDEX staff_name ON staff (name);
CREATE VIEW rich AS SELECT deptno, department_name FROM depts WHERE budget > 1000;
CREATE SEQUENCE tickets START 100;
INSERT INTO depts VALUES (10, 'Research', 5000), (20, 'Sales', 750.5), (30, 'Archive', NULL);
INSERT INTO staff (name, deptno, born) VALUES ('Ada', 10, '1815-12-10'), ('Grace', 10, '1906-12-09'), ('Bob', NULL, NULL);
SELECT * FROM depts ORDER BY deptno;
SELECT d.department_name, count(s.id), min(s.born) FROM depts d LEFT JOIN staff s USING (deptno) GROUP BY 1 ORDER BY 1;
SELECT * FROM rich;
UPDATE depts SET budget = budget * 2 WHERE deptno = 20 RETURNING *;
DELETE FROM staff WHERE name = 'Bob';
SELECT nextval('tickets');
\echo -- one row in expanded form
\x on
SELECT * FROM staff ORDER BY id LIMIT 1;
\x off
\echo -- mistakes
SELECT * FROM nothing;
SELECT departmentname FROM depts;
INSERT INTO depts VALUES (10, 'Again', 1);
INSERT INTO depts VALUES (40, 'Debts', -1);
INSERT INTO depts VALUES (40, NULL, 1);
SELECT 1 / 0;
SELEC 1;
\echo -- a transaction
BEGIN;
INSERT INTO depts VALUES (50, 'Gone', 0);
SELECT count(*) FROM depts;
ROLLBACK;
SELECT count(*) FROM depts;
\echo -- variables, generated statements, descriptions, parameters
SELECT max(deptno) AS top FROM depts \gset
\echo :top
SELECT 'SELECT ' || deptno || ' AS n' FROM depts ORDER BY deptno \gexec
SELECT deptno, budget FROM depts \gdesc
SELECT department_name FROM depts WHERE deptno = $1 \bind 20 \g
\echo -- COPY in both directions
\copy staff (name, deptno) FROM stdin WITH (FORMAT csv)
Copied,20
Also,
\.
COPY (SELECT name, deptno FROM staff ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER);
\echo -- cursors
\set FETCH_COUNT 2
SELECT deptno FROM depts ORDER BY deptno;
\unset FETCH_COUNT
\echo -- what a table looks like
\d depts
\d+ depts
\d staff
\d numbered
\d rich
\d+ rich
\d tickets
\d depts_pkey
\d nothing
\echo -- lists
\pset format unaligned
\pset footer off
\d
\dt
\dt hr.*
\dv
\ds
\di
\dn
\dn+ hr
\df
\df hr.*
\dT
\dD
\du
\dg postgres
\dp depts
\dd depts
\l :DBNAME
\l template*
\dconfig search_path
\encoding
\echo -- the end
DROP SCHEMA hr CASCADE;
