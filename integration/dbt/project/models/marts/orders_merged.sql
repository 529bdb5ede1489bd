{{ config(
    materialized="incremental",
    incremental_strategy="merge",
    unique_key="order_id",
    on_schema_change="append_new_columns"
) }}
select *, {{ "'again'" if is_incremental() else "'first'" }}::text as written
from {{ ref("stg_orders") }}
{% if is_incremental() %}
where placed_on >= (select max(placed_on) from {{ this }})
{% endif %}
