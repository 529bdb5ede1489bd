"""What upkeep, VACUUM and commits ask of the bookkeeping."""
