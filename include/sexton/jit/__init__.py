"""How kernels are compiled and cached: one decorator, one module of bare memory."""
