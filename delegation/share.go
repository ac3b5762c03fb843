package delegation

import "time"

// The Grantor shares grants among parties. While grants are free, a party may
// have another if it holds fewer than are free, or fewer than its share would
// be with one more party. A new party therefore finds some free. If a party
// below its share finds none free, the Grantor recalls a grant from a party
// above its share.

// makeRoomFor reports whether c may have another grant, and makes room for it,
// either now or for a later ACQUIRE on c.
func (g *Grantor) makeRoomFor(c *Conn, now time.Duration) bool {
	free, own, fair := g.cfg.Grants-g.grantCount, g.heldByParty[c.party], g.fairShare(c.party)
	switch {
	case free > 0 && (own < free || own < fair):
		return true
	case free > 0:
		return g.reclaimSome(c, anyGrant)
	case g.reclaimSome(g.largestConn(), anyGrant):
		return true
	case own < fair:
		g.recallSome(c.party, fair, now)
	}
	return false
}

// fairShare returns a party's share; the party may be new.
func (g *Grantor) fairShare(party string) int {
	parties := len(g.heldByParty)
	if g.heldByParty[party] == 0 {
		parties++
	}
	return g.cfg.Grants / (parties + 1)
}

// countGrants adds more, which may be negative, to a party's grants.
func (g *Grantor) countGrants(party string, more int) {
	g.grantCount += more
	if g.heldByParty[party] += more; g.heldByParty[party] == 0 {
		delete(g.heldByParty, party)
	}
}

// recallSome recalls one grant from a party above its share: preferably from
// one that missed a deadline, otherwise from the largest. The server cannot see
// which grants are in use, so it picks a party's grants in rotation. At most
// recallRate grants are recalled per second, to spare the clients that use
// them.
func (g *Grantor) recallSome(asking string, fair int, now time.Duration) {
	var from *Conn
	for _, c := range g.conns {
		if c.party != asking && g.heldByParty[c.party] > fair && c.grantCount > 0 && !c.ended && (from == nil || g.mustYieldBefore(c, from, now)) {
			from = c
		}
	}
	if from != nil {
		g.recallNext(from, anyGrant, now)
	}
}

// recallNext recalls c's next grant for which pick returns true, if the rate
// permits and the next slots contain one. It reports whether it did.
func (g *Grantor) recallNext(c *Conn, pick func(*grant) bool, now time.Duration) bool {
	if now-g.recallSecond >= time.Second {
		g.recallSecond, g.recallsInSecond = now, 0
	}
	if g.recallsInSecond == recallRate {
		return false
	}
	for range min(reclaimScan, len(c.slots)) {
		if gr := c.nextGrant(); gr != nil && gr.phase == phaseHeld && !gr.ended && pick(gr) {
			g.recallsInSecond++
			g.startRecall(gr, now)
			return true
		}
	}
	return false
}

// mustYieldBefore reports whether a must give up a grant before b.
func (g *Grantor) mustYieldBefore(a, b *Conn, now time.Duration) bool {
	if la, lb := g.isPenalized(a, "", now), g.isPenalized(b, "", now); la != lb {
		return la
	}
	if g.heldByParty[a.party] != g.heldByParty[b.party] {
		return g.heldByParty[a.party] > g.heldByParty[b.party]
	}
	return a.grantCount > b.grantCount
}
