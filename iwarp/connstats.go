package iwarp

// Counts returns what c has sent and received.
func (c *Conn) Counts() (sent, received Counts) {
	c.addTo(&sent, &received)
	return sent, received
}
