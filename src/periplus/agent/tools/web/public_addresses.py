"""Public addresses: an allowlist of what the internet routes, in any spelling or wrapping."""

from __future__ import annotations

__all__ = ["Resolver", "check_host", "is_public", "resolve"]

import ipaddress
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from periplus.base.errors import NotFoundError, RefusedError

Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""The addresses of a host, as text. Raises OSError."""

_NAME_CHARS_MAX: Final = 253
# Networks that ``is_global`` of some Python versions allows, or that lead to addresses it does not allow.
_REFUSED: Final = tuple(map(ipaddress.ip_network, (
    "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "192.88.99.0/24", "168.63.129.16/32", "fec0::/10", "64:ff9b:1::/48",
    "2001::/23", "2001:db8::/32", "3fff::/20", "100::/64", "5f00::/16",
)))  # fmt: skip
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_PRIVATE_NAMES: Final = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
    "localdomain",
    "onion",
)


def is_public(address: str) -> bool:
    """Return whether ``address`` is public. An address embedded in it is judged too."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if "%" in address:
        return False  # link-local
    if isinstance(found, ipaddress.IPv6Address):
        inner = _carried(found)
        if inner is not None:
            return is_public(str(inner)) and found not in _COMPATIBLE
    return (
        found.is_global
        and not found.is_multicast
        and not found.is_reserved
        and not any(found in network for network in _REFUSED if network.version == found.version)
    )


def _carried(found: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The embedded IPv4 address: mapped, compatible, 6to4, NAT64."""
    if found.ipv4_mapped is not None:
        return found.ipv4_mapped
    if found.sixtofour is not None:
        return found.sixtofour
    if found in _NAT64 or found in _COMPATIBLE:
        return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return None


def check_host(host: str) -> str:
    """Normalise the name of a host. Raises RefusedError unless it can be public."""
    name = host.rstrip(".").lower()
    if not name or len(name) > _NAME_CHARS_MAX:
        raise _refused(host, "it is not a host name")
    is_address = ":" in name or name.replace(".", "").isdigit() or name.startswith("0x")
    if is_address:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise _refused(host, "it is an address in an ambiguous spelling") from None
        if not is_public(name):
            raise _refused(host, "it is an address of this machine or of a private network")
    elif any(name == private or name.endswith(f".{private}") for private in _PRIVATE_NAMES) or "." not in name:
        raise _refused(host, "it is the name of a host in a private network")
    return name


def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve with the system's resolver."""
    import socket

    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def public_addresses(host: str, port: int, resolver: Resolver, is_allowed: Callable[[str], bool]) -> list[str]:
    """The addresses to connect to. A host with one address that is not public is refused, since it may choose which one we get."""
    try:
        found = list(resolver(host, port))
    except (OSError, UnicodeError) as error:
        raise NotFoundError(f"the name {host} cannot be resolved: {error}") from error
    if not found:
        raise NotFoundError(f"the name {host} has no address")
    for address in found:
        if not is_allowed(address):
            raise _refused(host, f"it resolves to {address}, which is not a public address")
    return found


def _refused(host: str, why: str) -> RefusedError:
    return RefusedError(
        f"{host[:100]!r} is refused: {why}", safe="Nothing was sent.", mend="Only public hosts are fetched from."
    )
