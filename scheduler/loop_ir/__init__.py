"""Where and when everything runs: placements, instances, the loop nest, its boxes, text and meaning."""
