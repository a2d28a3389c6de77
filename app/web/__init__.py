"""The web server of page and API: the listening socket, origin checks, and the closing of slow clients."""
