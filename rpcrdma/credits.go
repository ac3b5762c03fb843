package rpcrdma

// A requester may have as many calls in flight as the last reply granted (RFC
// 8166, Section 3.3.1). The grant is the number that the requester requests, up
// to Server.Credits. If calls on all connections use more than half of
// MaxInline, it is at most the connection's fair share of MaxInline: peers that
// respect their grants then never reach the limit at which connections are
// closed. Calls that wait for chunk memory do not reduce the grant. With fewer
// credits, small calls, which overtake waiting ones here, would wait behind
// them at the requester.
//
// Each credit is backed by a posted receive, and there are some extra receives.
// A message consumes a receive; its call posts another just before its reply is
// posted, so that the requester never gets a credit without a receive. For a
// larger grant, the missing receives are posted before the reply that announces
// it. After a smaller grant, replies post no receives until only the granted
// ones are left. That begins once the replies with the larger grant have been
// sent: replies are posted by different goroutines, and the requester obeys the
// last one that it receives.
//
// A peer that sends calls and reads no replies could make replies accumulate
// without bound. If twice the grant is in flight, including unsent replies,
// receives are therefore posted only as calls complete.
//
// If a peer sends more than was granted, there is no receive, and the provider
// terminates its connection.

// credits is a connection's credit state. The connection's lock guards it.
type credits struct {
	granted      uint32 // by the last reply
	recvs        int    // receives that are posted, owed, or used by an unanswered call
	owedRecvs    int    // to be posted when fewer calls are in flight
	replies      int    // replies not yet sent
	olderReplies int    // those with a different grant
}

func (cr *credits) init(c *config) {
	cr.granted, cr.recvs = uint32(c.credits), c.credits+extraRecvs
}

// grantCredits determines the number of credits that a reply grants, given the
// number requested in the call, and posts the necessary receives. It must be
// called just before the reply is posted.
func (c *conn) grantCredits(asked uint32) uint32 {
	afford := c.affordableCredits(asked)
	c.mu.Lock()
	cr := &c.credits
	if cr.olderReplies == 0 && afford != cr.granted {
		cr.granted, cr.olderReplies = afford, cr.replies
	}
	cr.replies++
	granted, want := cr.granted, int(cr.granted)+extraRecvs
	post := 1
	switch {
	case cr.recvs < want:
		post += want - cr.recvs
	case cr.recvs > want && cr.olderReplies == 0:
		post = 0
	}
	cr.recvs += post - 1
	if post == 1 && c.inFlight > c.srv.cfg.maxUnderWay() {
		cr.owedRecvs, post = cr.owedRecvs+1, 0
	}
	err := c.postRecvsLocked(post)
	c.mu.Unlock()
	c.abortOnError(err)
	return granted
}

// replySentLocked records that a reply with the given grant has been sent.
func (cr *credits) replySentLocked(granted uint32) {
	cr.replies--
	if granted != cr.granted {
		cr.olderReplies--
	}
}

// affordableCredits returns the number of calls that the connection can have in flight: at least
// one, and at most the number requested.
func (c *conn) affordableCredits(asked uint32) uint32 {
	s := c.srv
	n := min(asked, uint32(s.cfg.credits))
	if s.inlineBytes.Load() > s.cfg.maxInline/2 {
		part := s.fairShare.Load() / (callSize + int64(s.cfg.inline+c.maxSend))
		n = uint32(min(int64(n), max(0, part-extraRecvs)))
	}
	return max(n, 1)
}

// maxUnderWay returns the number of calls in flight on a connection above which
// posting receives is deferred.
func (c *config) maxUnderWay() int { return 2*c.credits + extraRecvs }

// repostRecv posts a receive to replace that of a message without a reply.
func (c *conn) repostRecv() {
	c.mu.Lock()
	var err error
	if c.inFlight > c.srv.cfg.maxUnderWay() {
		c.credits.owedRecvs++
	} else {
		err = c.postRecvsLocked(1)
	}
	c.mu.Unlock()
	c.abortOnError(err)
}

// postOwedLocked posts a deferred receive, if that is allowed now.
func (c *conn) postOwedLocked() error {
	if c.credits.owedRecvs == 0 || c.inFlight > c.srv.cfg.maxUnderWay() {
		return nil
	}
	c.credits.owedRecvs--
	return c.postRecvsLocked(1)
}

// postRecvsLocked posts n receives. The caller holds the lock, so no other reply can
// announce the receives before they are posted.
func (c *conn) postRecvsLocked(n int) error {
	if n == 0 {
		return nil
	}
	return c.rc.PostRecv(n)
}

// abortOnError aborts a connection that rejects receives. Most often it has already ended.
func (c *conn) abortOnError(err error) {
	if err != nil {
		c.abort(err)
	}
}
