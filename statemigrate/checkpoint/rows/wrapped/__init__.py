"""What a store puts around rows: versions, lengths, orders, times and checksums."""
