"""Configuration of a run: its schema, reading from YAML, writing."""

from nmt.config.loading import dump_config, load_config, load_run_config
from nmt.config.schema import Config

__all__ = ["Config", "dump_config", "load_config", "load_run_config"]
