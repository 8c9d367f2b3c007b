"""slowstep: why are my training steps slow, and what do I change? Answered by controlled experiments."""
