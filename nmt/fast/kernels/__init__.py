"""The same mathematics made fast: each fused operation has a plain twin and a test that both agree."""
