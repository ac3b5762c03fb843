package rpcrdma

// A requester may have as many calls under way as the last reply granted (RFC
// 8166, Section 3.3.1). The grant follows what it asks for, up to
// Server.Credits, and where the calls of all connections take more than half of
// MaxInline, up to the connection's fair part of that: those who keep to their
// grants then never reach the bound at which connections go. That calls wait for
// the memory of their chunks takes nothing from the grant: with fewer credits the
// small ones, which pass them by here, would wait behind them at the requester.
//
// Behind each credit stands a receive, and some more behind all. A message takes
// one; its call gives it back just before its reply is posted, so that the
// requester never learns of a credit without one. For a larger grant the
// missing ones are posted before the reply that tells of it. After a smaller
// one, a reply gives none back, until there are no more than are granted. That
// begins when the replies with the larger grant have left: each is posted by a
// goroutine of its own, and the requester goes by the last that it sees.
//
// A peer that sends calls and reads no replies would so make replies pile up
// without end. Where twice the grant is under way, replies not yet sent
// included, receives are therefore given back only as calls end.
//
// A peer that sends more than was granted finds no receive, and the provider
// ends its connection.

// credits are those of a connection, whose lock guards them.
type credits struct {
	granted uint32 // by the last reply that was made
	recvs   int    // receives that are posted, owed, or taken by a call that has no reply yet
	owed    int    // to be posted when fewer calls are under way
	replies int    // made and not yet sent
	older   int    // of them, those with another grant
}

func (cr *credits) init(c *config) {
	cr.granted, cr.recvs = uint32(c.credits), c.credits+extraRecvs
}

// grant decides what a reply to a call with the given request grants, and posts
// the receives that this takes. It is called just before the reply is posted,
// and sent when that has been done.
func (c *conn) grant(asked uint32) uint32 {
	afford := c.affords(asked)
	c.mu.Lock()
	cr := &c.credits
	if cr.older == 0 && afford != cr.granted {
		cr.granted, cr.older = afford, cr.replies
	}
	cr.replies++
	granted, want := cr.granted, int(cr.granted)+extraRecvs
	post := 1
	switch {
	case cr.recvs < want:
		post += want - cr.recvs
	case cr.recvs > want && cr.older == 0:
		post = 0
	}
	cr.recvs += post - 1
	if post == 1 && c.underWay > c.srv.cfg.maxUnderWay() {
		cr.owed, post = cr.owed+1, 0
	}
	err := c.postLocked(post)
	c.mu.Unlock()
	c.broken(err)
	return granted
}

// sentLocked notes that a reply with the given grant has left.
func (cr *credits) sentLocked(granted uint32) {
	cr.replies--
	if granted != cr.granted {
		cr.older--
	}
}

// affords returns how many calls the connection can have under way, at least
// one, up to what is asked for.
func (c *conn) affords(asked uint32) uint32 {
	s := c.srv
	n := min(asked, uint32(s.cfg.credits))
	if s.inline.Load() > s.cfg.maxInline/2 {
		part := s.fair.Load() / (callSize + int64(s.cfg.inline+c.longest))
		n = uint32(min(int64(n), max(0, part-extraRecvs)))
	}
	return max(n, 1)
}

// maxUnderWay returns how many calls of a connection may be under way before
// it owes receives.
func (c *config) maxUnderWay() int { return 2*c.credits + extraRecvs }

// giveBack lets the peer send a message in place of one that gets no reply.
func (c *conn) giveBack() {
	c.mu.Lock()
	var err error
	if c.underWay > c.srv.cfg.maxUnderWay() {
		c.credits.owed++
	} else {
		err = c.postLocked(1)
	}
	c.mu.Unlock()
	c.broken(err)
}

// settleDebtLocked posts a receive that is owed, if it can be given back now.
func (c *conn) settleDebtLocked() error {
	if c.credits.owed == 0 || c.underWay > c.srv.cfg.maxUnderWay() {
		return nil
	}
	c.credits.owed--
	return c.postLocked(1)
}

// postLocked posts n receives. With the lock held no other reply can tell of
// them before they are there.
func (c *conn) postLocked(n int) error {
	if n == 0 {
		return nil
	}
	return c.rc.PostRecv(n)
}

// broken ends a connection that takes no receives. Most often it has ended
// already.
func (c *conn) broken(err error) {
	if err != nil {
		c.abort(err)
	}
}
