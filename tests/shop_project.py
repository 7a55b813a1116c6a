"""A small project of Python whose code is asked about: two packages, one that calls the other, and tests."""

from __future__ import annotations

from cli_support import git

FILES = {
    "src/shop/__init__.py": "",
    "src/shop/prices.py": (
        '"""Prices."""\n\n\ndef price_of(item, amount):\n    """Return the price of some items."""\n    return item.cost * amount\n\n\n'
        "class Till:\n    def total(self, items):\n        return sum(price_of(item, 1) for item in items)\n"
    ),
    "src/shop/orders.py": "from shop.prices import price_of\n\n\ndef order(items):\n    return [price_of(item, 2) for item in items]\n",
    "src/web/__init__.py": "",
    "src/web/pages.py": (
        "from shop.orders import order\nfrom shop.prices import price_of\n\n\ndef page(items):\n    return order(items), price_of(items[0], 1)\n"
    ),
    "tests/test_prices.py": "from shop.prices import price_of\n\n\ndef test_price():\n    assert price_of is not None\n",
    "README.md": "# Shop\n",
}


def make_shop(folder):
    """Write the project as a git repository with one commit."""
    for path, text in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "begin")
    return folder
