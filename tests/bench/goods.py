"""The number of products in the tests of the ladders."""

PRODUCTS, CATEGORIES = 2_000, 20
