"""Schema version 1 of a measured cell, the journal, the results file, and how both are checked."""
