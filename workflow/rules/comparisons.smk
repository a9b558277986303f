# What is compared without a score: sizes of corpora and models, and hyper-parameters, printed beside ours.
