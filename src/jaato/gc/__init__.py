"""The plug-in contract, and how plans are made, settled and applied."""
