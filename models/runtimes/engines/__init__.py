"""Language models in processes of their own: what the runtimes that start such a process share."""
