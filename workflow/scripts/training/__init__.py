"""What trains a run, and what the jobs that train or predict share. pretrain.py is the loop."""
