{{ config(materialized="materialized_view", indexes=[{"columns": ["city"], "unique": true}]) }}
select city, count(*) as customers, sum(total) as total
from {{ ref("customer_totals") }}
group by city
