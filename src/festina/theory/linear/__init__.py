"""Deep linear networks: exact solutions from small initial weights to large, from rich to lazy."""
