"""What a connected client may do: statements, portals, transactions, COPY; knows no sockets."""
