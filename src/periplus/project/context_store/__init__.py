"""The contexts of a project: objects in the store's own folder, refs as records of its journal.

`contexts` is the public face, `library` the store that servers show to others, `exchange` the transfer to and from other stores.
Below lie the trails of the project and the package `periplus.context`.
"""
