//! A simulated device with seeded noise and faults, for tests and for trying the tool.
