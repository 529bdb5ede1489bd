select customer_id, name, coalesce(city, 'unknown') as city, changed_at::timestamp as changed_at
from {{ ref("customers") }}
