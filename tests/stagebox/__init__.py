"""Small stages of every kind, for tests of the engine. Recipes name them by import path: `stagebox.upper`."""
