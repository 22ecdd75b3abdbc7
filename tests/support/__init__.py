"""What tests share: worlds to act in, oracles to compare with, and strategies to draw from."""
