"""Kernels for CPUs, in C: compiled once by the machine's own compiler, where there is one."""
