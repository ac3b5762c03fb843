package nfs4state

import "time"

// A slotTable holds the slots of a session's fore channel (RFC 8881, Section 2.10.6.1).
// Session.mu guards it. A client can use any of the slots, but the server tells it a target
// (sr_target_highest_slotid), which rises and falls with the use of the slots and with the memory
// that other sessions want.
//
// A slot's sequence ID is kept as long as the session: no call is ever executed again, and a client
// that uses a slot again continues with the next sequence ID. Memory for a reply is reserved only
// for the slots below reserved. This number falls to the target when the client has shown that it
// has received all replies to the other slots' calls. sr_highest_slotid never falls, because Linux
// would start again with sequence ID 1 in the slots above it.
type slotTable struct {
	slots    []slot
	maximum  uint32 // number of slots that the client has requested
	reserved uint32 // number of slots with memory for a reply; at most len(slots)
	target   uint32 // number of slots that the client should use; 1 to reserved
	peak     uint32 // number of slots that the client has used since the last trimSlots

	replyCost   int // bytes of replyBytes
	replyLength int // bytes reserved for a reply

	// generation advances when the target falls, and with each new call above the target. A slot
	// has the generation at its last call: a new call in the slot shows that the client has
	// received the last one's reply, and was sent after the generation had begun.
	generation       uint64
	targetGeneration uint64 // when the target fell last

	hasSeenTarget bool          // the client has received a reply with the target
	hasFollowed   bool          // the client has received the replies to all calls above the target
	enforceAt     time.Duration // if the client has not followed by then; 0: not set
	isEnforced    bool          // new calls above the target fail
	isRecalled    bool          // TrimSlots has returned the session since the target fell
	isFull        bool          // addSlots has found no memory since the last trimSlots
}

const (
	// firstSlots is the maximum number of slots at the start of a session. It is what Linux
	// requests.
	firstSlots = 64

	// idleSlots is the number of slots that an idle session keeps.
	idleSlots = 8

	// sessionPart divides the reply memory that a client's group may still get: a session may use
	// that much.
	sessionPart = 128

	// slotsPerEntry is the number of slots that count as one entry: they are next to each other.
	slotsPerEntry = 64

	// slotSize is the approximate number of bytes in a slot without its reply.
	slotSize = 64

	// MaxCachedReply is the maximum length of a reply that a slot caches on request, in bytes
	// (ca_maxresponsesize_cached). Linux requests 7,584 bytes.
	MaxCachedReply = 8 << 10
)

// SlotLimits are the limits that SEQUENCE returns (RFC 8881, Section 18.46.3).
type SlotLimits struct {
	Highest uint32 // the highest slot ID that the session accepts
	Target  uint32 // the highest slot ID that the client should use
}

// SlotLimits returns the current limits.
func (s *Session) SlotLimits() SlotLimits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slotLimits()
}

func (t *slotTable) slotLimits() SlotLimits {
	return SlotLimits{Highest: uint32(len(t.slots)) - 1, Target: t.target - 1}
}

// isNewCall reports whether the slot executes a call with that sequence ID.
func (sl *slot) isNewCall(sequence uint32) bool { return sequence == sl.sequence+1 && !sl.running }

// needsSlots reports whether a new call uses the highest slot below the target, or one above it,
// and the target may rise. The slot exists.
func (t *slotTable) needsSlots(a *Sequenced) bool {
	return a.Slot+1 >= t.target && t.target < t.maximum && !t.isFull && t.slots[a.Slot].isNewCall(a.Sequence)
}

// retireSlot reports whether a new call may not use its slot. The slot's reply is then no longer
// needed: the next sequence ID shows that the client has received it.
func (t *slotTable) retireSlot(slot uint32) bool {
	if slot < t.target || slot < t.reserved && !t.isEnforced {
		return false
	}
	t.slots[slot].dropReply()
	return true
}

// dropReply frees the memory of a reply that the client has received.
func (sl *slot) dropReply() { sl.reply, sl.hasReply = nil, false }

// noteUse records what a new call shows about the client's use of its slots. The reply will contain
// the current target.
//
// If a call names no outstanding call above the target, and was sent after the last call above the
// target began, then the client has received the replies to all of these. A call that was sent
// earlier may have been overtaken on another connection, and shows nothing.
func (t *slotTable) noteUse(a *Sequenced) {
	sl, highest := &t.slots[a.Slot], max(a.Slot, a.Highest)
	t.peak = max(t.peak, highest+1)
	t.hasSeenTarget = t.hasSeenTarget || sl.generation >= t.targetGeneration
	t.hasFollowed = highest < t.target && (t.hasFollowed || sl.generation == t.generation)
	if a.Slot >= t.target {
		t.generation++
	}
	sl.generation = t.generation
}

// slotShare returns the number of slots that a session of the group may have. held is what it has
// already, and each what a slot costs, in bytes. A session gets a small part of the memory that its
// group may still get, but at least one slot: if there are very many sessions, all are slower.
// Memory for one slot of each possible session is left.
func (s *State) slotShare(p *clientGroup, held, each int) uint32 {
	first := (maxAllSessions - s.usage.get(liveSessions)) * (slotSize + MaxCachedReply)
	left := held + min(resourceLimits[replyBytes]-first-s.usage.get(replyBytes), resourceLimits[replyBytes]/2-p.usage.get(replyBytes))
	return uint32(max(left/sessionPart/each, 1))
}

// slotCost returns the number of bytes that one more slot costs.
func (t *slotTable) slotCost() int { return slotSize + t.replyLength }

// initSlots creates a new session's slots. maximum is the number that the client has requested.
func (s *State) initSlots(session *Session, maximum uint32) {
	session.maximum, session.replyLength = maximum, max(uncachedLimit, int(session.Fore.MaxResponseSizeCached))
	session.target = min(maximum, firstSlots, s.slotShare(session.client.group, 0, session.slotCost()))
	s.reserveSlots(session, session.target)
	session.Fore.MaxRequests = session.target
}

// reserveSlots reserves memory for the replies of n slots, and creates those that are missing.
func (s *State) reserveSlots(session *Session, n uint32) {
	if int(n) > len(session.slots) {
		session.slots = append(make([]slot, 0, n), session.slots...)[:n]
	}
	session.reserved = n
	cost := len(session.slots)*slotSize + int(n)*session.replyLength
	s.addUsage(session.client.group, replyBytes, cost-session.replyCost)
	session.replyCost = cost
}

// addSlots raises the target of a session whose client uses the highest slot below it, or one
// above it: it doubles, as far as the session's share of the memory allows.
func (s *State) addSlots(session *Session, slot uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.mu.Lock()
	defer session.mu.Unlock()
	if session.dead {
		return
	}
	n := min(max(2*session.target, slot+1), session.maximum, s.slotShare(session.client.group, session.replyCost, session.slotCost()))
	if n <= session.target {
		session.isFull = true
		return
	}
	session.target = n
	if n > session.reserved {
		s.reserveSlots(session, n)
	}
}

// TrimSlots lowers the targets of sessions that do not use their slots, or have much more than
// their share of the memory, and frees what clients have yielded. The caller must call TrimSlots
// periodically. Memory is wanted from the sessions that TrimSlots returns, at most limit, but their
// clients do not yield it: they should be sent CB_RECALL_SLOT (RFC 8881, Section 20.8). Each has a
// backchannel; others learn the target from their next SEQUENCE.
func (s *State) TrimSlots(limit int) (recall []*Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		s.mu.pauseLocked()
		for _, session := range c.sessions {
			s.mu.entries += 1 + len(session.slots)/slotsPerEntry
			if s.trimSlots(session, len(recall) < limit) {
				recall = append(recall, session)
			}
		}
	}
	return recall
}

// trimSlots trims one session. If mayRecall is set, it reports whether the client should be sent
// CB_RECALL_SLOT.
func (s *State) trimSlots(session *Session, mayRecall bool) (recall bool) {
	session.mu.Lock()
	defer session.mu.Unlock()
	s.releaseSlots(session)
	session.enforceTarget(s.config.Now(), s.config.Lease)
	share := s.slotShare(session.client.group, session.replyCost, session.slotCost())
	isWanted := share < session.reserved/2
	if isWanted && session.reserved > session.target && !session.isRecalled && mayRecall && session.hasBackchannel() {
		session.isRecalled, recall = true, true
	}
	target := session.target
	if target > idleSlots && session.peak <= target/2 {
		target = max(target/2, session.peak, idleSlots)
	}
	if share < target/2 {
		target = share
	}
	if target < session.target {
		session.target = target
		session.generation++
		session.targetGeneration = session.generation
		session.hasSeenTarget, session.hasFollowed, session.isRecalled = false, false, false
		session.enforceAt, session.isEnforced = 0, false
	}
	session.isFull, session.peak = false, session.highestRunning()
	return recall
}

// WantsSlots reports whether the client still has slots above the target, which has not changed.
func (s *Session) WantsSlots(target uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead && s.target-1 == target && s.reserved > s.target
}

// releaseSlots frees the memory of the slots above the target as far as their replies are no
// longer needed.
func (s *State) releaseSlots(session *Session) {
	n := session.reserved
	for ; n > session.target; n-- {
		sl := &session.slots[n-1]
		if sl.running || !session.hasFollowed && (sl.hasReply || !session.isEnforced) {
			break
		}
		sl.dropReply()
	}
	if n < session.reserved {
		s.reserveSlots(session, n)
	}
}

// enforceTarget makes new calls above the target fail if the client has not followed for a lease
// since it was told (RFC 8881, Sections 2.10.6.1 and 20.8.4).
func (t *slotTable) enforceTarget(now, lease time.Duration) {
	switch {
	case t.reserved == t.target, t.hasFollowed, !t.hasSeenTarget:
		t.enforceAt, t.isEnforced = 0, false
	case t.enforceAt == 0:
		t.enforceAt = now + lease
	case now >= t.enforceAt:
		t.isEnforced = true
	}
}

// highestRunning returns the ID of the highest slot that executes a call, plus one.
func (s *Session) highestRunning() (n uint32) {
	if s.running == 0 {
		return 0
	}
	for n = uint32(len(s.slots)); n > 0 && !s.slots[n-1].running; n-- {
	}
	return n
}
