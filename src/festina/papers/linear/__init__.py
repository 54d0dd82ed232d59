"""Models of representation learning dynamics (A. Saxe, slides): deep linear networks."""
