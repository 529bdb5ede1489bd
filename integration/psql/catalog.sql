-- One of everything that psql's commands of description list.
SET client_min_messages = error;
CREATE SCHEMA hr;
COMMENT ON SCHEMA hr IS 'people';
SET search_path = hr;
CREATE TYPE mood AS ENUM ('sad', 'glad');
COMMENT ON TYPE mood IS 'how it goes';
CREATE TYPE place AS (street text, city text);
CREATE TYPE hours AS RANGE (subtype = integer);
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE COLLATION plain_text (provider = builtin, locale = 'C');
CREATE SEQUENCE tickets INCREMENT 5 CACHE 10;
CREATE TABLE depts (
    deptno integer PRIMARY KEY,
    name varchar(40) COLLATE plain_text NOT NULL UNIQUE,
    budget numeric(12,2) DEFAULT 0 CHECK (budget >= 0),
    twice numeric GENERATED ALWAYS AS (budget * 2) STORED
);
COMMENT ON TABLE depts IS 'departments';
COMMENT ON COLUMN depts.budget IS 'in euros';
CREATE TABLE staff (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number serial,
    name text,
    mood mood DEFAULT 'glad',
    home place,
    deptno integer REFERENCES depts ON DELETE CASCADE,
    boss bigint REFERENCES staff DEFERRABLE INITIALLY DEFERRED,
    EXCLUDE USING btree (number WITH =)
);
CREATE INDEX staff_name ON staff (lower(name)) WHERE name IS NOT NULL;
CREATE INDEX staff_dept ON staff (deptno DESC NULLS LAST) INCLUDE (name);
CREATE STATISTICS staff_related (dependencies) ON name, deptno FROM staff;
ALTER TABLE staff ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON staff FOR SELECT TO pg_monitor USING (name = current_user);
CREATE TABLE events (id integer, at date NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE events_2025 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE events_other PARTITION OF events DEFAULT;
CREATE TABLE veterans (since date) INHERITS (staff);
CREATE TABLE notes (note text) WITH (fillfactor = 50);
CREATE TABLE no_key (a integer, b text);
CREATE VIEW rich AS SELECT deptno, name FROM depts WHERE budget > 1000;
COMMENT ON VIEW rich IS 'above a thousand';
CREATE MATERIALIZED VIEW sizes AS SELECT deptno, count(*) AS size FROM staff GROUP BY deptno;
CREATE UNIQUE INDEX sizes_key ON sizes (deptno);
CREATE FUNCTION greet(name text DEFAULT 'you', VARIADIC more text[] DEFAULT '{}') RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'hello ' || name;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE PROCEDURE nothing() LANGUAGE sql BEGIN ATOMIC END;
CREATE AGGREGATE longest(text) (SFUNC = textcat, STYPE = text);
CREATE FUNCTION same(place, place) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN ($1).city = ($2).city;
CREATE OPERATOR ~~~ (FUNCTION = same, LEFTARG = place, RIGHTARG = place);
CREATE CAST (mood AS integer) WITH INOUT;
CREATE TRIGGER touched BEFORE UPDATE ON depts FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER never AFTER DELETE ON depts FOR EACH STATEMENT EXECUTE FUNCTION touch();
ALTER TABLE depts DISABLE TRIGGER never;
CREATE RULE quiet AS ON DELETE TO notes DO INSTEAD NOTHING;
CREATE TEXT SEARCH CONFIGURATION words (PARSER = default);
CREATE PUBLICATION changes FOR TABLE depts (deptno, name) WHERE (budget > 0), staff;
GRANT SELECT ON depts TO pg_monitor;
GRANT UPDATE (name) ON depts TO pg_monitor WITH GRANT OPTION;
GRANT USAGE ON SCHEMA hr TO PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA hr GRANT SELECT ON TABLES TO pg_monitor;
INSERT INTO depts VALUES (1, 'One', 10), (2, 'Two', 2000);
INSERT INTO staff (name, deptno) VALUES ('Ada', 1), ('Bob', 1);
CREATE TABLE public.outside (id integer PRIMARY KEY);
