"""The networks in torch: as they are, as CUDA graphs, as exported programs."""
