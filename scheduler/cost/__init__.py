"""Cost models: estimates of cycles for passes and tiling."""
