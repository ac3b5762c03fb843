package rpcrdma

// The grant is constant. A connection starts with a receive for each credit
// and some more, a message takes one, and its call gives it back just before
// its reply is sent, so that the requester never learns of a credit without a
// receive behind it (RFC 8166, Section 3.3.1).
//
// A peer that sends calls and reads no replies would so make replies pile up
// without end. Where twice the grant is under way, replies not yet sent
// included, receives are therefore given back only as calls end.

// grant returns the credits that go into each header. It is never zero.
func (c *config) grant() uint32 { return uint32(c.credits) }

// maxUnderWay returns how many calls of a connection may be under way before
// it owes receives.
func (c *config) maxUnderWay() int { return 2*c.credits + extraRecvs }

// giveBack lets the peer send a message in place of the one that a call took.
func (c *conn) giveBack() {
	c.mu.Lock()
	if c.underWay > c.srv.cfg.maxUnderWay() {
		c.owed++
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.postRecv()
}

// settleDebt reports whether a receive that is owed can be given back now. The
// caller holds the lock.
func (c *conn) settleDebt() bool {
	if c.owed == 0 || c.underWay > c.srv.cfg.maxUnderWay() {
		return false
	}
	c.owed--
	return true
}

func (c *conn) postRecv() {
	if err := c.rc.PostRecv(1); err != nil {
		c.abort(err) // most often it has ended already
	}
}
