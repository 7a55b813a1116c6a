"""Exports of trails to formats of other programs. A format's module is imported at first use."""
