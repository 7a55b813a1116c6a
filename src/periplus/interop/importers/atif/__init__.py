"""Importer of ATIF documents (Agent Trajectory Interchange Format), versions 1.0 to 1.8: ``document.read`` is the public
face.
"""
