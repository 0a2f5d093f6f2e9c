"""What every room stands on: files, devices, records of tensors."""
