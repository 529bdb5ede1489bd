"""The simple and the extended query sub-protocol: which message is answered by what."""
