"""What was done to a checkpoint, when, by whom and with which code: a log that is kept in it.

The state itself stays the only truth. The log says what has begun, and at which batch; whether that
came to anything, the commits say.
"""
