"""A session as something to look at: `timeline` makes items of a trail's steps, `overview` its outline and totals, `search` finds
steps; `shared_file` and `site` write pages that need nothing else, and `verification` checks them against the trail.
"""
