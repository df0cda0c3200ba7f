"""What all tests share."""

# The first optimizer loads it, which takes seconds: not while a check's clock runs.
import torch._dynamo  # noqa: F401

pytest_plugins = ["system_packages", "browser"]
