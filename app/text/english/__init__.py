"""English as it is read: `tagger` says of what class each part of a phrase is, `verbalizer` says it."""
