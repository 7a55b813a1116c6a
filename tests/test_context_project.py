"""Contexts in a project's store: the contract of all stores, refs as records, exchange, collection, damage."""

from __future__ import annotations

import os

from context_contract import ContextContract
from periplus.journal import Writer
from periplus.project import Project
from periplus.project.context_library import ProjectLibrary

ADA = Writer("ada", "who_0000000000000000", "", 1)


class TestProjectStore(ContextContract):
    def make_store(self, tmp_path):
        Project.init(os.fspath(tmp_path))
        return ProjectLibrary(Project.open(os.fspath(tmp_path), ADA), owns=True)
