"""Commands for a whole store.

Maintenance (init, status, doctor), exchange with other clones (sync), one file (export, import) and the notification log of
version 1 (migrate).
"""
