"""The web page: the project's memory, work and history in a browser, on this machine, for browsers that were admitted."""
