"""All planted faults."""

from mutants.central import CENTRAL
from mutants.explorer import EXPLORER
from mutants.history import HISTORY
from mutants.inference import INFERENCE
from mutants.local_model import LOCAL

MUTANTS = (*CENTRAL, *EXPLORER, *HISTORY, *INFERENCE, *LOCAL)
