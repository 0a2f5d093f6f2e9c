"""The configuration of a run: its schema, and how it is read from YAML and written."""

from nmt.config.loading import dump_config, load_config, load_run_config
from nmt.config.schema import Config

__all__ = ["Config", "dump_config", "load_config", "load_run_config"]
