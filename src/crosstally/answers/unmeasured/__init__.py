"""Tables that no view covers, from what is known about them."""
