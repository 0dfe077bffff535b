"""What made the packaged demo: its collection, its labels and its tiny T5.

Run from the folder `examples`, each step writes into the package:

    python -m demo_model.collection   # the invented collection
    python -m demo_model.train --out ../fairtk/demo/model   # the T5: four minutes on a core
    python -m demo_model.label        # the utility labels, with that T5
"""
