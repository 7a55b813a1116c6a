"""Contexts of other machines: server addresses, calls, the asynchronous client, the remote store, and transfers.

Calls have no socket; the remote store drives them over a blocking one. The transfer is the core of push, pull and
clone. The public face is `async_client.ContextClient`, `remote_store.RemoteStore` and `transfer.transfer`. It
lies above `context.wire` and `context.stores`.
"""
