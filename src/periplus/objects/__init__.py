"""Content-addressed bytes: immutable objects under the SHA-256 of what they hold."""

from periplus.objects.object_forms import Packing
from periplus.objects.store import OBJECT_BYTES_MAX, ObjectStore

__all__ = ["OBJECT_BYTES_MAX", "ObjectStore", "Packing"]
