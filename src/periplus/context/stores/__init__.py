"""Local stores of contexts: the library over any source of objects, in memory or in a folder.

With refs, garbage collection, and the snapshots and runs that spare a long chain from being folded again. The public
face is `library.ContextLibrary`, `memory_store.MemoryStore` and `disk_store.DiskStore`. It lies above
`context.streams` and `context.deltas`.
"""
