"""Options of JAX's compiler for programs that compile for longer than they run."""

import jax

# XLA's newer emitters set up MLIR for every fused operation. Without them small programs compile in
# two thirds of the time, run as fast, and return the same numbers. Other releases of JAX may not
# know this option, and unknown options raise an error.
QUICK = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__[:2] == (0, 10) else {}
"""Compiler options; JAX takes such options for the outermost compiled function only."""
