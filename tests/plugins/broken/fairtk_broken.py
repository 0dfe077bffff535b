"""A plugin that cannot be imported, for tests."""

import a_package_that_nobody_has  # noqa: F401
