"""Chat models: how they are built, pooled and watched, and how their failures are counted."""
