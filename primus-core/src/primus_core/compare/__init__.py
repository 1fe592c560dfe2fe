"""Two runs side by side: what was asked, what was reached, how fast. As data and as a page; prints nothing."""
