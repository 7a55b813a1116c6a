"""Contexts of other machines: server addresses, calls without a socket, the asynchronous client, the remote store over a blocking socket, and the transfer behind push, pull and clone.

The public face is `async_client.ContextClient`, `remote_store.RemoteStore` and `transfer.transfer`. It lies above `context.wire`
and `context.stores`.
"""
