"""The provider without isolation: the thread's folders under their virtual names, and commands only if that is asked
for, as Antler's own user."""
