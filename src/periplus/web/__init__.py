"""The web page: the project's memory, work and history in a browser, for who has the address, on this machine."""
