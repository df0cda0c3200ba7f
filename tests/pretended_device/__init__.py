"""A CUDA device that is none: torch believes in one card, whose kernels run on the CPU.

``building`` compiles it once for a machine, ``facts`` loads it and says what ``torch.cuda`` tells
of it, ``chapter_run`` runs a chapter's cells there, in a process of their own. What runs on it are
CUDA's own lists of autocast, its generators, its engine's threads; tensors of two devices do not
mix, and memory is counted. What it cannot show: how a card rounds, how fast it is, several cards,
streams, and operations that are not deterministic there.
"""
