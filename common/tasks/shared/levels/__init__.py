"""How many people, how many for each item, which ratings: what tasks release before anything is learnt."""
