"""What every other room uses: errors, whole files, YAML, dataclasses from it. Standard library and PyYAML only."""
