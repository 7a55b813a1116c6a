"""The small project that docs/guides/code.md asks about."""

from __future__ import annotations

__all__ = ["make_shop"]

import subprocess

FILES = {
    "src/shop/__init__.py": "",
    "src/shop/prices.py": '''"""Prices in cents."""

VAT = 0.19


def with_vat(cents: int) -> int:
    """Add the value added tax to a net price."""
    return round(cents * (1 + VAT))


def total(items: list[int]) -> int:
    """Sum up net prices and add the tax."""
    return with_vat(sum(items))
''',
    "src/shop/cart.py": '''from shop.prices import total


class Cart:
    """What a customer is about to buy."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def add(self, cents: int) -> None:
        self.items.append(cents)

    def checkout(self) -> int:
        """Return what is to be paid."""
        return total(self.items)
''',
    "tests/test_cart.py": """from shop.cart import Cart


def test_checkout_adds_the_tax():
    cart = Cart()
    cart.add(100)
    assert cart.checkout() == 119
""",
    "web/cart.ts": """export function checkout(items: number[]): number {
  return items.reduce((sum, item) => sum + item, 0);
}
""",
}


def make_shop(folder, environment):
    """Write the files and commit them."""
    for path, text in FILES.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for words in (
        ("init", "-q", "-b", "main"), ("config", "user.name", "Ada"), ("config", "user.email", "ada@example.org"), ("add", "-A"),
        ("commit", "-qm", "A shop"),
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)
