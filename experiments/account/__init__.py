"""Study: the account of alpha_e, Delta and sigma_w^2 over a run, with exact gradients."""
