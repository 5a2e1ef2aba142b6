"""A GPU that is pretended on a CPU: what one would launch, copy and wait for, counted without one."""
