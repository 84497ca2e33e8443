"""Tables: from a data frame of any library to the numbers that a network sees."""
