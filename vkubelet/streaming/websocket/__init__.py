"""WebSockets (RFC 6455) without I/O: frames and connections, after the handshake."""
