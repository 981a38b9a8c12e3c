"""Record batches as they lie in a log: taken apart, and made. No broker is asked."""
