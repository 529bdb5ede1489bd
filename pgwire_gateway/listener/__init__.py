"""Listening for clients: sockets, encryption, startup, authentication, cancel requests."""
