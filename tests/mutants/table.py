"""All planted faults."""

from mutants.central import CENTRAL
from mutants.history import HISTORY
from mutants.inference import INFERENCE
from mutants.local_model import LOCAL

MUTANTS = (*CENTRAL, *HISTORY, *INFERENCE, *LOCAL)
