"""What the demonstration's processes run: the two deployments on either engine."""
