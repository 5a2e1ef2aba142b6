"""Chinese as it is read: `tagger` finds what wetext does not know, `verbalizer` says it, wetext the rest."""

CHINESE = ("zh", "yue")  # languages that are read so
