"""Exchange of lineages between the clones of a project: sync over a carrier, arrival of a lineage, rebase of a fork, and package files that
hold a whole store.

`sync`, `package` and `package_import` are its public face. Below lie `carriers` and `recovery`.
"""
