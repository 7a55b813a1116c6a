"""Events of OpenHands.

`event_files` is the importer and reads the files; `version0` and `version1` turn the events of each version into steps.
"""
