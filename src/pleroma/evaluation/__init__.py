"""What an index is worth: an `Outcome`, waste on events and rules on switches, which all tuners and experiments report.

`judge.Judge` finds the outcome where each subscription has a port of its own, `network_judge.NetworkJudge` where
subscriptions share hosts and ports as a `Placement` says. Both take the covers of all subscriptions at once
(`index_covers`) and count on rows of dz. Two more count deliveries below them: `grid_evaluator` those of an allocation
of bits, for those who try many, and `tree_counts` those of a tree, with its rules.
"""
