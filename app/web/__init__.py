"""The web server of the page and the API: its socket, origin checks, and time limits for slow clients."""
