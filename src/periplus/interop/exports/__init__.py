"""Trails in the formats of others. A format's module is imported where it is asked for."""
