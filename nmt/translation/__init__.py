"""Translation of lines: one implementation for validation, nmt-translate and nmt-evaluate."""
