select 1
from (select sum(total) as total from {{ ref("customer_totals") }}) a,
    (select sum(amount) as total from {{ ref("stg_orders") }}) b
where a.total <> b.total
