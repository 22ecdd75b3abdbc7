"""Commands about the folder of a controller, whether it runs or not: look through it, back it up, restore it."""
