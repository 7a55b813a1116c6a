"""Two parts in C, built wherever a compiler and Python's headers are: a speed-up, and nothing that anybody needs.

A part that cannot be built is told in one line and left out; the same functions are there in Python. All else about the
package is in pyproject.toml.
"""

from __future__ import annotations

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"periplus.base.{name}",
            [f"src/periplus/base/{name}.c"],
            depends=sorted(glob("src/periplus/base/*.h")),
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
        for name in ("_speed", "_values")
    ]
)
