{% snapshot customers_history %}
{{ config(
    target_schema="snapshots",
    unique_key="customer_id",
    strategy="timestamp",
    updated_at="changed_at",
    hard_deletes="invalidate"
) }}
select * from {{ ref("customers") }}
{% endsnapshot %}
