\pset pager off
\echo '\n== A table whose rows are never changed in place =='
CREATE SCHEMA hr;
CREATE TABLE hr.depts (deptno int PRIMARY KEY, department_name varchar(40) NOT NULL);
INSERT INTO hr.depts (deptno, department_name) VALUES (666, 'Pivotal');
UPDATE hr.depts SET department_name = 'New Name' WHERE deptno = 666 RETURNING *;
DELETE FROM hr.depts WHERE deptno = 666;
SELECT * FROM hr.depts;
\echo 'The journal keeps every version:'
SELECT deptno, department_name, version_number IS NOT NULL AS versioned,
       subsequent_version_number IS NOT NULL AS deleted
FROM hr.depts_journal ORDER BY version_number;

\echo '\n== Transactions =='
BEGIN;
INSERT INTO hr.depts VALUES (10, 'Sales'), (20, 'Research');
SELECT count(*) FROM hr.depts;
ROLLBACK;
SELECT count(*) FROM hr.depts;

\echo '\n== TPC-H, loaded with COPY =='
CREATE TABLE customer (
    c_custkey int PRIMARY KEY, c_name varchar(25), c_address varchar(40), c_nationkey int,
    c_phone char(15), c_acctbal numeric(15,2), c_mktsegment char(10), c_comment varchar(117));
CREATE TABLE orders (
    o_orderkey int PRIMARY KEY, o_custkey int, o_orderstatus char(1), o_totalprice numeric(15,2),
    o_orderdate date, o_orderpriority char(15), o_clerk char(15), o_shippriority int,
    o_comment varchar(79));
CREATE TABLE lineitem (
    l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric(15,2),
    l_extendedprice numeric(15,2), l_discount numeric(15,2), l_tax numeric(15,2),
    l_returnflag char(1), l_linestatus char(1), l_shipdate date, l_commitdate date,
    l_receiptdate date, l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44),
    PRIMARY KEY (l_orderkey, l_linenumber));
\copy customer FROM 'customer.csv' WITH (FORMAT csv, HEADER)
\copy orders FROM 'orders.csv' WITH (FORMAT csv, HEADER)
\copy lineitem FROM 'lineitem.csv' WITH (FORMAT csv, HEADER)
\echo 'Query 3, the shipping priority query:'
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate LIMIT 5;

\echo '\n== Changing loaded rows =='
UPDATE orders SET o_orderpriority = '1-URGENT' WHERE o_orderkey = 7;
DELETE FROM lineitem WHERE l_orderkey = 7 AND l_linenumber > 1;
SELECT o_orderkey, o_orderpriority, count(*) AS lines
FROM orders JOIN lineitem ON l_orderkey = o_orderkey
WHERE o_orderkey = 7 GROUP BY o_orderkey, o_orderpriority;
\echo 'VACUUM merges the journal into a new base; nothing is lost:'
VACUUM orders;
SELECT o_orderkey, o_orderpriority, subsequent_version_number IS NOT NULL AS superseded
FROM orders_journal WHERE o_orderkey = 7 ORDER BY version_number;
