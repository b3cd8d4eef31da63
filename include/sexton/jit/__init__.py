"""How kernels are compiled: `compiled` has the decorators and the cache, `memory` the access to raw memory."""
