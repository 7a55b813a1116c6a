"""Exchange of lineages between the clones of a project: `sync` over a carrier, the arrival of one lineage, the rebase of a fork, and a whole store in one package file.

`sync`, `package` and `package_import` are its public face. Below lie `carriers` and `recovery`.
"""
