"""What mathematics predicts: closed forms and reductions of learning dynamics."""
