"""Deployments of an embedded query, one after the other, without Spark, and a model of them."""
