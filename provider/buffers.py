"""How much memory a TLS connection takes."""

import asyncio.sslproto

TLS_BUFFER_BYTES = 32 * 1024
"""
What is read at once from a connection.

asyncio takes 256 KiB for each, and touches all of it at once: with hundreds of connections that is
most of the process's memory. Two records of 16 KiB may take more CPU for the same bytes.
"""


def shrink_tls_buffers() -> None:
    """Have TLS connections that are made from now on, in this process, take less memory."""
    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
