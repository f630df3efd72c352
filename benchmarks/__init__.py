"""Ratios that hold on a noisy machine: both sides are measured in turn, in one run."""
