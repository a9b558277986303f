"""What is made of scores and trainings: tables, figures, comparisons, cards, the audit."""
