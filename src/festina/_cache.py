"""Keep compiled programs on disk, so that a second process need not compile them again."""

import functools
import gc
import os
import tempfile
import warnings
from pathlib import Path

_OFF = ("", "0", "off", "none")
_MOST_MAPPINGS = 20_000  # the next experiment may add as many before it ends

_EAGER = {
    # JAX by default stores only programs that took a second to compile; festina's are small.
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


_switched_off = False
"""Whether festina switched JAX's compilation cache off, and may therefore switch it on again."""


def compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Switch on JAX's persistent compilation cache for this process.

    The cache makes the second run of a script start faster, because JAX then reads compiled
    programs from disk. Call `festina.compilation_cache()` once at the start of a script that trains
    networks; the command line calls this function by itself. JAX cannot cache a program with host
    callbacks, so such a program is compiled in every process.

    **Arguments:**

    - `folder`: folder for the compiled programs. The default is the folder that the user has set in
        JAX (`jax_compilation_cache_dir` or `JAX_COMPILATION_CACHE_DIR`), then the environment
        variable `FESTINA_CACHE`, then `xla` in the user's cache folder for festina.
        Without `folder`, `FESTINA_CACHE=off` switches the cache off and overrides JAX's settings.

    **Returns:**

    The folder in use, or `None` if the cache is off, in a remote bucket, or in a folder that cannot
    be written. Training works without the cache, so no error is raised.

    **Example:**

    >>> import festina
    >>> folder = festina.compilation_cache()
    >>> folder is None or folder.is_dir()
    True
    """
    global _switched_off
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    wish = os.environ.get("FESTINA_CACHE")
    # JAX sets this option from the environment variable JAX_COMPILATION_CACHE_DIR.
    chosen = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if folder is not None:
        place = Path(folder)
    elif wish is not None and wish.lower() in _OFF:
        _switched_off |= jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_enable_compilation_cache", False)
        return None
    elif chosen:
        if "://" in chosen:  # a remote bucket: only JAX can access it
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
    reset_cache()  # JAX reads the folder only once, at its first compilation
    for name, value in _EAGER.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)
    # With a full disk or a damaged entry JAX compiles again, so its warning is not useful.
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
"""Switch on the compilation cache at the first call; later calls do nothing."""


def discard_programs() -> None:
    """Discard compiled programs if this process is close to Linux's limit of memory mappings.

    Linux allows 65,530 mappings, a compiled program needs about nine, and beyond the limit the
    process crashes. Call this function between experiments that compile programs of their own.
    """
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > _MOST_MAPPINGS:
        import jax

        jax.clear_caches()
        gc.collect()  # programs have reference cycles
