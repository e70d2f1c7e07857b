"""What the frameworks of Horovod share, as far as programs import it."""
