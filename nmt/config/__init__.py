"""The configuration of a run: its schema, and how it is read from YAML."""

from nmt.config.schema import Config

__all__ = ["Config"]
