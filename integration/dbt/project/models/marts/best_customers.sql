{{ config(materialized="table", contract={"enforced": true}) }}
with ranked as (
    select customer_id, name, rank() over (order by total desc)::integer as place
    from {{ ref("big_customers") }}
)
select customer_id, name, place from ranked where place <= 2
