"""Chat models: building, pooling and monitoring them, and counting their failures."""
