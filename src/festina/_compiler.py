"""Options of JAX's compiler."""

import jax

# XLA's newer emitters set up MLIR for every fused operation. Without them small programs compile in
# two thirds of the time and return the same numbers, up to rounding errors; tanh of large arrays
# takes 1.4 times as long. Other releases of JAX may not know this option, and unknown options raise
# an error.
QUICK = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__[:2] == (0, 10) else {}
"""Compiler options for programs that compile for longer than they run. JAX accepts options only for
a compiled function that is not part of another one."""

HASTY = QUICK | {"xla_backend_optimization_level": 0}
"""Compiler options for programs that compile for much longer than they run: LLVM does not optimise
them. They compile in a third of the time and run for two to four times as long."""

_SCHEDULER = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
ONE_CORE = _SCHEDULER if jax.__version_info__ >= (0, 10) else {}
"""Compiler options with which XLA does not split small operations between cores, for programs that
already run on every core. Releases of JAX before 0.10 do not know the option."""
