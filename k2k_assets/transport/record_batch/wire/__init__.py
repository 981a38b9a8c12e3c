"""The protocol: connections to brokers, what is said over them, and who leads which partition."""
