"""Fused operations; each has a plain twin, and a test that both agree."""
