"""Common parts of the tests."""

import pytest

hypothesis = pytest.importorskip("hypothesis")
hypothesis.settings.register_profile("plimsoll", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("plimsoll")
