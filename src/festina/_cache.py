"""Compiled programs kept on disk, so that the second process does not compile again."""

import functools
import os
import tempfile
import warnings
from pathlib import Path

_OFF = ("", "0", "off", "none")

_EAGER = {
    # JAX's default keeps only what took a second to compile; ours are many small programs.
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


_switched_off = False
"""Whether it was us who switched the cache off, and may switch it on again."""


def compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Switch on JAX's persistent compilation cache for this process.

    The command line does so by itself. A script that trains networks calls
    `festina.compilation_cache()` once, at its beginning: the second time it runs, what it needs is
    read from disk. A program with host callbacks is never cached (JAX cannot store a Python
    function), so what is to be quick in the second process has none.

    **Arguments:**

    - `folder`: where compiled programs are kept. By default what the user has already told JAX
        (`jax_compilation_cache_dir`, `JAX_COMPILATION_CACHE_DIR`), else `FESTINA_CACHE`, else
        `xla` in the user's cache folder for festina. `FESTINA_CACHE=off` switches the cache off,
        whatever JAX was told.

    **Returns:**

    The folder in use, or `None` where there is none: the cache is off, or its folder cannot be
    written. Nothing is lost then but time, so that is no error.
    """
    global _switched_off
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    wish = os.environ.get("FESTINA_CACHE")
    # This is also what JAX_COMPILATION_CACHE_DIR says.
    chosen = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if folder is not None:
        place = Path(folder)
    elif wish is not None and wish.lower() in _OFF:
        _switched_off |= jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_enable_compilation_cache", False)
        return None
    elif chosen:
        if "://" in chosen:  # a bucket, which only JAX knows how to reach
            return None
        place = Path(chosen)
    elif wish is None:
        import platformdirs

        place = Path(platformdirs.user_cache_dir("festina", appauthor=False)) / "xla"
    else:
        place = Path(wish)

    place = place.expanduser().absolute()
    if not _writable(place):
        return None
    jax.config.update("jax_compilation_cache_dir", str(place))
    if _switched_off:
        jax.config.update("jax_enable_compilation_cache", True)
        _switched_off = False
    reset_cache()  # JAX decides once, at its first compilation, whether there is a cache and where
    for name, value in _EAGER.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)
    # A full disk or a damaged entry means compiling again, which is not worth a word.
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")
    return place


def _writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


switched_on = functools.cache(compilation_cache)
"""Switch on the cache the first time that it is called, and do nothing afterwards."""
