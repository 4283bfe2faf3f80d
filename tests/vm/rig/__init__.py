"""The rig that runs tests in emulated virtual machines: tests/vm/run is its entry."""
