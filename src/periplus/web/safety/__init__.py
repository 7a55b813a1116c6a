"""Who may ask: hosts, origins, the token of the address, cookies, tokens of forms, and the headers of every answer."""
