"""Tools of the network: fetch a page of a public host, and search through a provider that the user configured.

``public_addresses`` decides which hosts may be asked.
"""
