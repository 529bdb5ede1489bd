"""Files of others: which may be used, and what they consist of."""
