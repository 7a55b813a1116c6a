"""A project's store and other places: `sync` with other clones, folders and git repositories, `store_package` for the whole store in one file, `markdown_export` for people, `named_objects` for the objects that records name and that have to go along.

Below lie the trails, the contexts and the knowledge of the project.
"""
