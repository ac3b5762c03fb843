package delegation

// changes are a client's own of one object: the server does not recall what a
// connection holds for changes on that connection.
type changes struct{ underWay, begun int }

func (c *changes) begin() { c.underWay, c.begun = c.underWay+1, c.begun+1 }
func (c *changes) end()   { c.underWay-- }

// A mark is taken when a call is sent whose reply may go into the cache (rule c).
type mark struct {
	d     *Delegation // nil: nothing is held yet
	own   *changes
	begun int
}

// mark returns false where what comes must not be cached.
func (c *changes) mark(h *Holder, d *Delegation) (mark, bool) {
	return mark{d, c, c.begun}, c.underWay == 0 && (d == nil || usable(h, d))
}

// keeps tells whether what has come may be cached, if it is Unchanged where nothing was
// held.
func (m mark) keeps(h *Holder) bool {
	return m.own.begun == m.begun && (m.d == nil || usable(h, m.d))
}

// usable tells whether d has not ended.
func usable(h *Holder, d *Delegation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.state == valid
}
