{{ config(indexes=[{"columns": ["customer_id"], "unique": true}, {"columns": ["city"], "type": "hash"}]) }}
select c.customer_id, c.name, c.city, count(o.order_id) as orders, coalesce(sum(o.amount), 0) as total
from {{ ref("stg_customers") }} c
left join {{ ref("stg_orders") }} o using (customer_id)
group by 1, 2, 3
