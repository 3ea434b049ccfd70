"""Commands on this machine: how they are started, watched and held; the providers bubblewrap, landlock and host."""
