"""Demos that run the whole product: real processes, real Spark, real kills, and a report as proof."""
