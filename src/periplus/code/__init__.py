"""Code as memory sees it: the definitions of a file by name, and regions of lines that are found again when they move."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.code.regions import Region, find_region, lines_of, region_of
    from periplus.code.symbols import Symbol, Symbols, language_of, symbols_of
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Region", "find_region", "lines_of", "region_of"), "regions"),
            **dict.fromkeys(("Symbol", "Symbols", "language_of", "symbols_of"), "symbols"),
        },
    )

__all__ = ["Region", "Symbol", "Symbols", "find_region", "language_of", "lines_of", "region_of", "symbols_of"]
