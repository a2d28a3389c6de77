"""The web server of the page and of the API: the listening socket, origin checks, and the closing of slow
clients."""
