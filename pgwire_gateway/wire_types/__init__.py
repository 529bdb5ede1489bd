"""Values between their wire forms, Arrow columns and the catalog's rows."""
