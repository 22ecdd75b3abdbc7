"""What was collected: sampled events, reports, plans and subscriptions, and how Spark reads them."""
