"""Common parts of the tests. PLIMSOLL_CASES is the number of cases of each property, 170 by default."""

import os

try:
    import hypothesis
except ImportError:
    # The tests of properties say themselves that they are skipped.
    pass
else:
    cases = int(os.environ.get("PLIMSOLL_CASES", "170"))
    hypothesis.settings.register_profile("plimsoll", deadline=None, derandomize=True, max_examples=cases)
    hypothesis.settings.load_profile("plimsoll")
