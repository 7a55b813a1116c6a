"""Content-addressed storage: immutable objects named by the SHA-256 of their contents."""

from periplus.objects.object_forms import Packing
from periplus.objects.store import OBJECT_BYTES_MAX, ObjectStore

__all__ = ["OBJECT_BYTES_MAX", "ObjectStore", "Packing"]
