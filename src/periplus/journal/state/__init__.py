"""The state that records stand for: entities with the heads of their version graphs, the merge of several heads, the fold of a whole journal, and the transaction that collects one mutation.

`entity` and `transaction` are its public face. Pure; only `records` lies below.
"""
