"""Decompression of record batches inside the kernels: lz4, snappy, zstd. `kernels.inflate` chooses between them."""
