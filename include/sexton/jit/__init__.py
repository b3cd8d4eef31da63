"""Compiles and caches kernels: the decorators (compiled) and their access to memory (memory)."""
