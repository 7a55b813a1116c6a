"""The folder of the notification log (v1), kept the same as the journal: `folder_keeper` takes in what changed there and writes what changed here, `folder_pass` compares the two, `folder_history` reads what entities were, and `migration_archive` keeps the copies that a migration makes.

Nothing here knows the open project store; `periplus.project.migration` changes the mode.
"""
