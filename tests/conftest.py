"""What all tests share."""

pytest_plugins = ["system_packages", "browser"]
