"""What docs/reliability.md promises, tried at full length: `python -m reliability.crashes` and so on."""
