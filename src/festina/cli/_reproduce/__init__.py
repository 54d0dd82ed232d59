"""`festina reproduce`: all experiments of a source, side by side in several processes."""

from ._command import reproduce as reproduce
