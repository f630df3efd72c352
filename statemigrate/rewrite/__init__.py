"""A new checkpoint from an old one: for any change, of any state that Spark keeps."""
