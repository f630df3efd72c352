"""What the new code keeps, seen in a checkpoint that it made itself, on no input."""
