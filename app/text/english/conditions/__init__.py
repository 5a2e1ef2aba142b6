"""Where a form is meant: what the words beside it say, a file for each subject."""
