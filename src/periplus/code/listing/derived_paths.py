"""Conventions by which a path tells that nobody of the project wrote the file: code of others, and code that a program made.

The conventions are those that GitHub's linguist made common, of which a table of our own is kept here. Only names that
hardly anybody gives to code of their own count: ``vendor`` and ``third_party`` do, ``lib``, ``dist`` and ``build`` do not.
"""

from __future__ import annotations

__all__ = ["is_generated_path", "is_minified_name", "is_vendored_path"]

import re
from typing import Final

_VENDORED_FOLDERS: Final = frozenset({
    "node_modules", "bower_components", "jspm_packages", "vendor", "vendors", "vendored", "third_party", "third-party", "thirdparty",
    "3rdparty", "3rd-party", "3rd_party", "godeps", "_vendor", "pods", "carthage", "site-packages", "dist-packages", ".venv", ".yarn",
})  # fmt: skip
_VENDORED_NAMES: Final = frozenset({
    "gradlew", "gradlew.bat", "mvnw", "mvnw.cmd", "config.guess", "config.sub", "ltmain.sh", "install-sh", "libtool.m4",
    "aclocal.m4", "configure", "depcomp", "ar-lib", "ylwrap", "test-driver", "mkinstalldirs", ".pnp.cjs", ".pnp.js",
    ".pnp.loader.mjs", "modernizr.js", "html5shiv.js",
})  # fmt: skip
_GENERATED_FOLDERS: Final = frozenset(
    {"__generated__", "__pycache__", "generated-sources", "generated-src", "__snapshots__"}
)
_GENERATED_NAMES: Final = frozenset({
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.lock", "composer.lock", "cargo.lock",
    "gemfile.lock", "poetry.lock", "pdm.lock", "uv.lock", "pixi.lock", "pipfile.lock", "flake.lock", "go.sum", "gopkg.lock", "glide.lock",
    "mix.lock", "pubspec.lock", "podfile.lock", "packages.lock.json", "package.resolved", "module.bazel.lock", ".terraform.lock.hcl",
    "gradle.lockfile", "cargo.toml.orig", "parser.out", "parsetab.py", "lextab.py",
})  # fmt: skip
_GENERATED_SUFFIXES: Final = (
    ".pb.go", "_grpc.pb.go", ".pb.gw.go", ".twirp.go", ".pb.validate.go", "zz_generated.deepcopy.go",
    "_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi", "_pb.rb", "_services_pb.rb", "_pb.js", "_pb.ts", "_pb.d.ts", "_grpc_pb.js",
    ".pb.h", ".pb.cc", ".pb.c", ".grpc.pb.h", ".grpc.pb.cc", ".pb.swift", ".pb.dart", ".pbgrpc.dart", ".pbenum.dart", ".pbjson.dart",
    ".g.dart", ".freezed.dart", ".mocks.dart", ".g.cs", ".g.i.cs", ".designer.cs", ".designer.vb", ".generated.cs", ".assemblyinfo.cs",
    ".generated.ts", ".generated.js", ".generated.tsx", ".generated.go", ".generated.swift", ".gen.go", ".gen.ts", ".gen.dart",
    ".tab.c", ".tab.h", ".yy.c", ".map", ".nib", ".xcworkspacedata", ".resolved", ".snap", "_wrap.cxx", "_wrap.c",
)  # fmt: skip
_GENERATED_NAME: Final = re.compile(r"moc_[^/]+\.cpp|ui_[^/]+\.h|qrc_[^/]+\.cpp")
_VENDORED_NAME: Final = re.compile(
    r"(?:jquery|angular|backbone|underscore|lodash|prototype|mootools|ember|react|vue|d3|raphael|highcharts|bootstrap|modernizr)"
    r"[.-]v?\d[\w.-]*\.(?:js|css)"
)
_MINIFIED_NAME: Final = re.compile(r"[^/]*[.-]min\.(?:js|mjs|cjs|css)")


def is_vendored_path(path: str) -> bool:
    """Return whether the path is one of code that was taken from elsewhere."""
    *folders, name = path.lower().split("/")
    if not _VENDORED_FOLDERS.isdisjoint(folders):
        return True
    return name in _VENDORED_NAMES or _VENDORED_NAME.fullmatch(name) is not None


def is_generated_path(path: str) -> bool:
    """Return whether the path is one of a file that a program made."""
    *folders, name = path.lower().split("/")
    if not _GENERATED_FOLDERS.isdisjoint(folders) or name in _GENERATED_NAMES:
        return True
    return name.endswith(_GENERATED_SUFFIXES) or _GENERATED_NAME.fullmatch(name) is not None


def is_minified_name(path: str) -> bool:
    """Return whether the name says that the file is minified."""
    return _MINIFIED_NAME.fullmatch(path.lower().rpartition("/")[2]) is not None
