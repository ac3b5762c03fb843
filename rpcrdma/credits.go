package rpcrdma

// A requester may have as many calls under way as the last reply granted (RFC
// 8166, Section 3.3.1). The grant is the number that the requester asks for, up
// to Server.Credits. If the calls of all connections take more than half of
// MaxInline, it is at most the connection's fair share of MaxInline: peers that
// keep to their grants then never reach the bound at which connections are
// ended. Calls that wait for the memory of their chunks do not reduce the
// grant. With fewer credits, small calls, which pass waiting ones here, would
// wait behind them at the requester.
//
// Each credit is backed by a posted receive, and some more back all credits. A
// message takes a receive; its call posts another just before its reply is
// posted, so that the requester never learns of a credit without a receive. For
// a larger grant, the missing receives are posted before the reply that
// announces it. After a smaller grant, replies post no receives until only the
// granted ones are left. That begins when the replies with the larger grant
// have left: each is posted by a goroutine of its own, and the requester obeys
// the last one that it sees.
//
// A peer that sends calls and reads no replies could make replies pile up
// without end. If twice the grant is under way, including replies not yet sent,
// receives are therefore posted only as calls end.
//
// A peer that sends more than was granted finds no receive, and the provider
// ends its connection.

// credits are the credits of a connection. The connection's lock guards them.
type credits struct {
	granted uint32 // by the last reply that was made
	recvs   int    // receives that are posted, owed, or used by a call without a reply yet
	owed    int    // to be posted when fewer calls are under way
	replies int    // made and not yet sent
	older   int    // of replies: made with another grant
}

func (cr *credits) init(c *config) {
	cr.granted, cr.recvs = uint32(c.credits), c.credits+extraRecvs
}

// grant decides how many credits a reply to a call with the given request
// grants, and posts the necessary receives. It must be called just before the
// reply is posted.
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

// affords returns how many calls the connection can have under way: at least
// one, and at most the number that is asked for.
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

// giveBack posts a receive in place of a message that gets no reply.
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

// settleDebtLocked posts an owed receive, if that is allowed now.
func (c *conn) settleDebtLocked() error {
	if c.credits.owed == 0 || c.underWay > c.srv.cfg.maxUnderWay() {
		return nil
	}
	c.credits.owed--
	return c.postLocked(1)
}

// postLocked posts n receives. The caller holds the lock, so no other reply can
// announce the receives before they are posted.
func (c *conn) postLocked(n int) error {
	if n == 0 {
		return nil
	}
	return c.rc.PostRecv(n)
}

// broken ends a connection that accepts no receives. Most often it has ended
// already.
func (c *conn) broken(err error) {
	if err != nil {
		c.abort(err)
	}
}
