"""SELECT, INSERT, UPDATE, DELETE and MERGE of journaled tables, of any number of rows."""
