"""Loops: work in phases, each with a gate. `table` has them, `gates` decides, on values in `evidence`; `artifacts` are what agents hand in,
`material` what they are given of earlier phases, and `substance` tells a text from padding. `runner` does the phases
by dispatches: `phase_orders` says of which, `command_runs` and `collection` bring the evidence.
"""
