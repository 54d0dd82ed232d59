"""Numerical methods that several packages share: Hessians, Lanczos, BFGS, integration."""
