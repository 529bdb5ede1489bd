select order_id, customer_id, placed_on::date as placed_on, amount::numeric(10, 2) as amount
from {{ ref("orders") }}
