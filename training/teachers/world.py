"""WORLD's analysis and synthesis of speech, imported where setuptools no longer has what it asks for."""

import importlib.metadata
import sys
import types

if "pkg_resources" in sys.modules:
    import pyworld
else:  # pyworld asks it for its own version; setuptools 81 dropped it
    sys.modules["pkg_resources"] = types.ModuleType("pkg_resources")
    sys.modules["pkg_resources"].get_distribution = importlib.metadata.distribution  # type: ignore[attr-defined]
    try:
        import pyworld
    finally:  # where it is not installed, too
        del sys.modules["pkg_resources"]

__all__ = ["pyworld"]
