"""Forecasts of when a run leaves its plateau."""
