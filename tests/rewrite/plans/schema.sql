create table customers (id int primary key, name text, city varchar(20), since date);
create table orders (id bigint primary key, customer int, total numeric(12,2), tax numeric,
  placed timestamp, paid timestamptz, shipped date, note text, code char(4));
create table items (order_id bigint, line int, quantity int, price numeric(8,2), weight float8,
  primary key (order_id, line));
create table events (kind text, at timestamptz, amount numeric);
create table orders_journal (id bigint, customer int, total numeric(12,2), tax numeric,
  placed timestamp, paid timestamptz, shipped date, note text, code char(4),
  version_number timestamptz, subsequent_version_number timestamptz);
create view big_orders as select id, customer, total from orders where total > 1000;
