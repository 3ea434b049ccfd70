"""Commands on this machine: how they are started, watched and confined; the providers bubblewrap, landlock and host."""
