"""``NamedTuple`` like that of ``typing``, at a tenth of the cost of making a class.

``typing`` compiles an expression for the annotation of each field and another for each class, which a process of a
tenth of a second mostly never uses. Type checkers see the class of ``typing``. At run time a class has the same
fields, methods and defaults; its annotations stay texts, and its ``__new__`` is compiled when the first value is
made.
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, ANN204 - type checkers see none of what is defined here

from __future__ import annotations

__all__ = ["NamedTuple"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    import sys

    _NO_SUCH_FIELD = TypeError if sys.version_info >= (3, 13) else ValueError  # as that of typing

    try:
        from _collections import _tuplegetter
    except ImportError:  # a Python that has it not in C
        from operator import itemgetter

        def _tuplegetter(at, doc):
            return property(itemgetter(at), doc=doc)

    class _Maker(type):
        def __new__(maker, name, bases, namespace):
            if not bases:
                return super().__new__(maker, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one that has one")
            wrong = [field for field in fields if field.startswith("_")] or [*_METHODS.keys() & namespace.keys()]
            if wrong:
                raise TypeError(f"{name}: {wrong[0]} is no name for a field or method of a NamedTuple")
            getters = {field: _tuplegetter(at, field) for at, field in enumerate(fields)}
            own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            namespace.pop("__orig_bases__", None)  # a tuple, as the bases are not reported
            return type(name, (tuple,), {"__repr__": _repr, **namespace, **_METHODS, **getters, **own})

    def _new(cls, /, *values, **named):
        """The ``__new__`` of a class until its first value is made: it puts the real one in its own place."""
        owner = next(one for one in cls.__mro__ if "_fields" in one.__dict__)  # for ``cls`` may be derived from it
        names = "".join(f"{field}, " for field in owner._fields)
        scope = {"_tuple_new": tuple.__new__, "__builtins__": {}, "__name__": f"namedtuple_{owner.__name__}"}
        found = eval(f"lambda _cls, {names}: _tuple_new(_cls, ({names}))", scope)  # noqa: S307 - of names of fields
        found.__name__, found.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
        found.__defaults__ = tuple(owner._field_defaults.values())
        owner.__new__ = staticmethod(found)
        return found(cls, *values, **named)

    def _make(cls, iterable):
        found = tuple.__new__(cls, iterable)
        if len(found) != len(cls._fields):
            raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(found)}")
        return found

    def _replace(self, /, **named):
        found = self._make(map(named.pop, self._fields, self))
        if named:
            raise _NO_SUCH_FIELD(f"{type(self).__name__} has no fields {', '.join(named)}")
        return found

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _getnewargs(self):
        return tuple(self)

    def _repr(self):
        return f"{type(self).__name__}({', '.join([f'{n}={v!r}' for n, v in zip(self._fields, self, strict=True)])})"

    _METHODS = {
        "__new__": _new, "_make": classmethod(_make), "_replace": _replace, "__replace__": _replace, "_asdict": _asdict,
        "__getnewargs__": _getnewargs,
    }  # fmt: skip

    class _Named(metaclass=_Maker):
        """What such a class seems to be derived from; it is derived from ``tuple`` alone."""

    class _Base:
        def __mro_entries__(self, bases):
            return (_Named,)

    NamedTuple = _Base()
