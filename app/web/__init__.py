"""What the page's server and the API's share: who may ask, slow clients, and a listening socket."""
