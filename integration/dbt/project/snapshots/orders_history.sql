{% snapshot orders_history %}
{{ config(
    target_schema="snapshots",
    unique_key="order_id",
    strategy="check",
    check_cols=["amount"]
) }}
select * from {{ ref("orders") }}
{% endsnapshot %}
