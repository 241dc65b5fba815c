"""Pure codecs: foreign JSON to messages and back, and the rules by which providers refuse it."""
