"""Values, checks, linear algebra, quadrature, random numbers and files."""
