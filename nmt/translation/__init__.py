"""From lines to lines: the one path that validation, nmt-translate and nmt-evaluate share."""
