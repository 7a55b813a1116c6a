"""Pages: texts that are not files but are read, listed and searched like files, by a handle ``@periplus/…``.

``page_source`` has the protocol; the outputs of commands are one source. The search patterns and the process that matches them are here
too.
"""
