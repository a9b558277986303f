"""Evaluation tasks: what the upstream files hold and what a prediction file looks like.

Standard library only (BLEU loads its packages when it is measured), so that scoring starts at once and anyone's files
can be scored without the engine.
Each task module (`known.py` names them) has METRICS; read_test for the upstream files, read_dev where something is
chosen on dev (weights, the threshold of mining), read_train where something is trained on them; inputs_of and gold_of
what was read; and for prediction files read_predictions, write_predictions and read_gold. Retrieval and alignment have
a file of every layer too.
"""
