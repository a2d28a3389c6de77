"""The web server of the page and of the API: origin checks, slow clients, and a listening socket."""
