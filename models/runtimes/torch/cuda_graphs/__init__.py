"""The networks at fixed shapes, inputs and caches in memory that stays: for CUDA graphs and compilers."""
