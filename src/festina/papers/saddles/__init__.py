"""Saddle-to-saddle dynamics (Zhang, Saxe & Latham): a module for each figure, table and theorem."""
