"""What a `StatefulProcessor` meets, on either engine: keys, rows, state variables, handle."""
