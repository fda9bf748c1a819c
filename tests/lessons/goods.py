"""The number of products in the tests of the use cases."""

PRODUCTS, CATEGORIES = 2_000, 20
