"""SQLAlchemy's asynchronous engine without its ORM, which the engine's package loads too and nothing here uses.

That saves a console some 5 MB, and every start some 40 ms.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_PACKAGE = "sqlalchemy.ext.asyncio"
_PARTS = ("base", "engine", "exc", "result")  # what the engine is made of: modules of that package
_whole = threading.RLock()


def _defer() -> None:
    """Puts the package there unread. Whoever asks it for a name, such as AsyncSession, has it read then, by itself."""
    if _PACKAGE in sys.modules or (spec := find_spec(_PACKAGE)) is None:
        return
    package, loader = module_from_spec(spec), spec.loader
    read: list[str] = []  # the name for which it was read

    def missing(name: str) -> object:
        if name not in _PARTS and not name.startswith("__") and loader is not None:
            with _whole:
                if not read:
                    read.append(name)  # before: what is read may ask, too
                    loader.exec_module(package)
            if name in vars(package):
                return vars(package)[name]
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")

    vars(package)["__getattr__"] = missing
    _entered(package)


def _entered(package: ModuleType) -> None:
    """As an import would leave it, unless another thread imported it meanwhile."""
    if sys.modules.setdefault(_PACKAGE, package) is package:
        vars(sys.modules["sqlalchemy.ext"])["asyncio"] = package


_defer()

from sqlalchemy.ext.asyncio.engine import AsyncConnection as AsyncConnection  # noqa: E402 - only now
from sqlalchemy.ext.asyncio.engine import AsyncEngine as AsyncEngine  # noqa: E402
from sqlalchemy.ext.asyncio.engine import create_async_engine as create_async_engine  # noqa: E402
