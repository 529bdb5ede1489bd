{{ config(materialized="incremental", incremental_strategy="delete+insert", unique_key=["customer_id", "placed_on"]) }}
select customer_id, placed_on, sum(amount) as amount
from {{ ref("stg_orders") }}
group by 1, 2
