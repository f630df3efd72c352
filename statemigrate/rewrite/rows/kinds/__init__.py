"""Rows that become rows of another kind: lists, maps and joins taken apart, and put together."""
