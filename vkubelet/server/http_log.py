"""What the HTTP server logs: what went wrong with us, not what peers got wrong."""

import logging

from aiohttp.http_exceptions import HttpProcessingError


class PeerMistakeFilter(logging.Filter):
    """
    Drops records of requests that aren't HTTP, or have a line that is too long.

    Whoever sent one got a 400. Anybody who reaches the port could fill the log with tracebacks
    else, and part of a request (a command line may hold a password) would be in it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be logged."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


http_logger = logging.getLogger(__name__)
http_logger.addFilter(PeerMistakeFilter())
