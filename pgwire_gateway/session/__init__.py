"""What a connected client may do: statements, portals, transactions, COPY; knows messages, no sockets."""
