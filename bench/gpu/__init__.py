"""Everything of a GPU worth knowing in one run: the networks in every form, and the service under load."""
