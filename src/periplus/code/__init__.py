"""Code as memory sees it: the definitions of a file by name, and regions of lines that are found again when they move."""

from periplus.code.regions import Region, find_region, lines_of, region_of
from periplus.code.symbols import Symbol, Symbols, language_of, symbols_of

__all__ = ["Region", "Symbol", "Symbols", "find_region", "language_of", "lines_of", "region_of", "symbols_of"]
