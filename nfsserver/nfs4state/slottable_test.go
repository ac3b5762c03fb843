package nfs4state

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// linuxReply is the ca_maxresponsesize_cached that Linux requests.
const linuxReply = 7584

// newSlotClient creates a client of a host with one session, for which it requests 256 slots.
func (w *testState) newSlotClient(host byte, owner string) *Session {
	id, sequence, _ := w.mustExchange(exchangeFrom(host, owner))
	a := createFrom(host, id, sequence)
	a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 256, linuxReply
	a.Flags, a.Back, a.SecParms = nfs4.SessionConnBackChan, nfs4.ChannelAttrs{MaxRequests: 1}, nfs4.SecParms{None: true}
	return w.mustCreateSession(a)
}

// callWith executes a whole call with a short reply in a slot. highest is the highest slot with an
// outstanding call. It returns the limits in the reply.
func (w *testState) callWith(s *Session, slot, highest uint32) SlotLimits {
	w.t.Helper()
	o := w.Begin(s, &Sequenced{Slot: slot, Sequence: s.slots[slot].sequence + 1, Highest: highest, Conn: "first"})
	if !o.New {
		w.t.Fatalf("call in slot %d: %+v", slot, o)
	}
	s.End(slot, []byte{byte(slot)}, true, false)
	return o.Limits
}

// trimIdle calls TrimSlots as often as an idle session needs to fall to idleSlots.
func (w *testState) trimIdle() {
	for n := 256; n >= idleSlots; n /= 2 {
		w.advanceClock(testLease / 4)
		w.TrimSlots(0)
	}
}

// retrySlot repeats a slot's last call.
func (w *testState) retrySlot(s *Session, slot uint32) sequenceOutcome {
	return w.Begin(s, &Sequenced{Slot: slot, Sequence: s.slots[slot].sequence, Conn: "first"})
}

// checkSlots checks a session's slots: the memory that is reserved, and that no other is used.
func checkSlots(t *testing.T, s *Session) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target < 1 || s.target > s.reserved || int(s.reserved) > len(s.slots) || len(s.slots) > int(s.maximum) {
		t.Fatalf("target %d, reserved %d, slots %d, maximum %d", s.target, s.reserved, len(s.slots), s.maximum)
	}
	want(t, "cost", s.replyCost, len(s.slots)*slotSize+int(s.reserved)*linuxReply)
	for i := int(s.reserved); i < len(s.slots); i++ {
		if sl := &s.slots[i]; sl.running || sl.hasReply || sl.reply != nil {
			t.Fatalf("slot %d has no memory, but is %+v", i, sl)
		}
	}
}

// TestTargetRisesWithUse checks that a session gets more slots when its client uses all it has, up
// to the number that the client has requested.
//
// R8881-2.10.6.1-10.
func TestTargetRisesWithUse(t *testing.T) {
	w := newTestState(t)
	s := w.newSlotClient(1, "c")
	want(t, "ca_maxrequests", s.Fore.MaxRequests, firstSlots)
	want(t, "limits", w.callWith(s, 62, 62), SlotLimits{63, 63})
	for n := uint32(64); n < 256; n *= 2 {
		want(t, "limits", w.callWith(s, n-1, n-1), SlotLimits{2*n - 1, 2*n - 1})
		checkSlots(t, s)
	}
	want(t, "limits", w.callWith(s, 255, 255), SlotLimits{255, 255})
	want(t, "highest of nonsense", w.Begin(s, &Sequenced{Sequence: 1, Highest: 256}).Status, nfs4.ErrBadHighSlot)
	want(t, "highest of nonsense", w.Begin(s, &Sequenced{Sequence: 1, Highest: ^uint32(0)}).Status, nfs4.ErrBadHighSlot)
	w.checkLockCounts()
}

// TestRejectedCalls checks that calls which SEQUENCE rejects get a session no more slots.
func TestRejectedCalls(t *testing.T) {
	w := newTestState(t)
	s := w.newSlotClient(1, "c")
	highest := &Sequenced{Slot: 63, Sequence: 1, Highest: 256, Conn: "first"}
	want(t, "highest of nonsense", w.Begin(s, highest).Status, nfs4.ErrBadHighSlot)
	s.client.protect.MustEnforce = nfs4.BitmapOf(nfs4.OpBindConnToSession)
	stranger := &Sequenced{Slot: 63, Sequence: 1, Highest: 63, Conn: "unbound"}
	want(t, "call on an unbound connection", w.Begin(s, stranger).Status, nfs4.ErrConnNotBoundToSession)
	want(t, "limits", s.SlotLimits(), SlotLimits{63, 63})
}

// TestIdleSlots checks that the target of an idle session falls, that replies in the slots above it
// are kept until the client has shown that it knows the target and has received them, and that a
// slot which is used again continues with its next sequence ID.
//
// R8881-2.10.6.1-13, R8881-2.10.6.1-1.
func TestIdleSlots(t *testing.T) {
	w := newTestState(t)
	s := w.newSlotClient(1, "c")
	w.callWith(s, 40, 40)
	w.callWith(s, 0, 0)
	full := s.replyCost
	w.trimIdle()
	want(t, "target without calls", s.SlotLimits(), SlotLimits{63, idleSlots - 1})
	want(t, "memory before the client knows", s.replyCost, full)

	want(t, "limits", w.callWith(s, 0, 0), SlotLimits{63, idleSlots - 1})
	w.TrimSlots(0)
	want(t, "memory after the reply with the target", s.replyCost, full) // it may not have arrived
	w.callWith(s, 1, 1)
	w.callWith(s, 0, 40)
	w.TrimSlots(0)
	want(t, "memory while a call in slot 40 is outstanding", s.replyCost, full)
	want(t, "retry", string(w.retrySlot(s, 40).Replay), "(")

	w.callWith(s, 0, 0)
	w.TrimSlots(0)
	checkSlots(t, s)
	want(t, "slots with memory", s.reserved, idleSlots)
	want(t, "limits", w.callWith(s, 0, 0), SlotLimits{63, idleSlots - 1})

	want(t, "an old call in slot 40", w.retrySlot(s, 40).Uncached, true)
	want(t, "a call with the first sequence ID", w.Begin(s, &Sequenced{Slot: 41, Sequence: 2}).Status, nfs4.ErrSeqMisordered)
	want(t, "limits when slot 40 is used again", w.callWith(s, 40, 40), SlotLimits{63, 40})
	want(t, "retry", string(w.retrySlot(s, 40).Replay), "(")
	checkSlots(t, s)
	w.checkLockCounts()
}

// TestOvertakenCall checks that a call which was sent before a call above the target, but arrives
// after it, does not show that the client has received that one's reply.
func TestOvertakenCall(t *testing.T) {
	w := newTestState(t)
	s := w.newSlotClient(1, "c")
	s.peak = 30
	w.TrimSlots(0)
	want(t, "target", s.target, 32)
	w.takeReplyMemory(s)
	w.callWith(s, 0, 0)
	w.callWith(s, 40, 40) // the client has sent it after the next one
	w.callWith(s, 0, 0)
	w.TrimSlots(0)
	want(t, "retry", string(w.retrySlot(s, 40).Replay), "(")
}

// takeReplyMemory makes a session's group use all memory that it may have.
func (w *testState) takeReplyMemory(s *Session) {
	w.State.mu.Lock()
	defer w.State.mu.Unlock()
	w.addUsage(s.client.group, replyBytes, replyMemory/2-s.client.group.usage.get(replyBytes))
}

// TestTargetIgnored checks that memory which others want is requested from a client by
// CB_RECALL_SLOT, once, and that the client has a lease to follow. New calls above the target fail
// then, which retires the slot, but retries get their replies.
//
// R8881-2.10.6.1-11, R8881-2.10.6.1-13.
func TestTargetIgnored(t *testing.T) {
	w := newTestState(t)
	s := w.newSlotClient(1, "c")
	for slot := range uint32(firstSlots) {
		w.callWith(s, slot, 63)
	}
	want(t, "target", s.target, 128)
	w.takeReplyMemory(s)
	want(t, "recalls before the client was told", len(w.TrimSlots(9)), 0)
	want(t, "limits", w.callWith(s, 62, 63), SlotLimits{127, 0})
	want(t, "recalls beyond the limit", len(w.TrimSlots(0)), 0)
	recalled := w.TrimSlots(9)
	want(t, "recalls", len(recalled) == 1 && recalled[0] == s && s.WantsSlots(0), true)
	want(t, "recalls again", len(w.TrimSlots(9)), 0)

	w.callWith(s, 62, 63) // shows that the client has the target
	w.TrimSlots(9)
	w.advanceClock(testLease - 1)
	w.TrimSlots(9)
	w.callWith(s, 62, 63)
	w.advanceClock(1)
	w.TrimSlots(9)
	want(t, "retry", string(w.retrySlot(s, 62).Replay), ">")
	next := s.slots[62].sequence + 1
	for range 2 {
		want(t, "new call", w.Begin(s, &Sequenced{Slot: 62, Sequence: next, Conn: "first"}).Status, nfs4.ErrBadSlot)
		want(t, "retry when the slot is retired", w.retrySlot(s, 62).Uncached, true)
	}
	want(t, "retry in another slot", string(w.retrySlot(s, 63).Replay), "?")
	w.TrimSlots(9)
	want(t, "slots with memory", s.reserved, firstSlots) // slots that were never used have lost theirs; the client may repeat its call in slot 63

	want(t, "limits", w.callWith(s, 0, 0), SlotLimits{127, 0})
	w.callWith(s, 0, 0)
	w.TrimSlots(9)
	want(t, "slots with memory when the client follows", s.reserved, 1)
	want(t, "recall", s.WantsSlots(0), false)
	checkSlots(t, s)

	w.State.mu.Lock()
	w.addUsage(s.client.group, replyBytes, s.replyCost-s.client.group.usage.get(replyBytes))
	w.State.mu.Unlock()
	w.TrimSlots(9)
	want(t, "the same call when there is memory", w.Begin(s, &Sequenced{Slot: 62, Sequence: next, Conn: "first"}).New, true)
	s.End(62, nil, true, false)
	checkSlots(t, s)
	w.checkLockCounts()
}

// TestSlotsOfManySessions checks that all clients have similar numbers of slots after a while,
// however many came after a client, and that a host with very many sessions leaves memory to others.
//
// R8881-21-5.
func TestSlotsOfManySessions(t *testing.T) {
	w := newTestState(t)
	var sessions []*Session
	for i := range 3000 {
		sessions = append(sessions, w.newSlotClient(byte(i%2), fmt.Sprint("c", i)))
	}
	useAll := func() {
		for _, s := range sessions {
			for range 2 { // the second call shows that the client knows the target
				target := s.SlotLimits().Target
				w.callWith(s, target, target)
				w.callWith(s, 0, 0)
			}
		}
	}
	for range 12 {
		useAll()
		w.advanceClock(testLease / 4)
		w.TrimSlots(0)
		want(t, "memory is within its bound", w.usage.get(replyBytes) <= replyMemory, true)
	}
	least, most := sessions[0].target, sessions[0].target
	for _, s := range sessions {
		checkSlots(t, s)
		least, most = min(least, s.target), max(most, s.target)
	}
	if least < 5 || most > 3*least {
		t.Errorf("sessions have %d to %d slots", least, most)
	}
	third := w.newSlotClient(3, "of a third host")
	if n := third.Fore.MaxRequests; n < least {
		t.Errorf("a session of a third host has %d slots, others at least %d", n, least)
	}
	w.checkLockCounts()
}

// A slotCall is a call of a slotModel's client.
type slotCall struct {
	Sequenced
	id       uint64
	executed int
	replied  bool // the client has the reply
}

// A slotModel is a client with a session over two connections. Its calls arrive in any order, and
// more than once. It has all calls outstanding that it likes, in slots that the server has told it
// at any time, and gets replies or loses them.
type slotModel struct {
	*testState
	r           *rand.Rand
	session     *Session
	limits      SlotLimits
	sequence    map[uint32]uint32    // by slot
	outstanding map[uint32]*slotCall // by slot
	inFlight    []*slotCall          // copies of calls that have not arrived
	running     []*slotCall
	load        uint32 // highest slot that the client likes to use at present
}

// sendCall sends a new call, or repeats one.
func (m *slotModel) sendCall() {
	slot := m.r.Uint32N(min(m.limits.Target, m.load) + 1)
	if m.r.IntN(20) == 0 {
		slot = m.r.Uint32N(m.limits.Highest + 1)
	}
	if again := slices.Sorted(maps.Keys(m.outstanding)); len(again) > 0 && m.r.IntN(2) == 0 {
		slot = again[m.r.IntN(len(again))]
	}
	c := m.outstanding[slot]
	if c == nil {
		c = &slotCall{id: m.r.Uint64()}
		c.Slot, c.Sequence, c.Highest, c.Digest = slot, m.sequence[slot]+1, slot, c.id
		for other := range m.outstanding {
			c.Highest = max(c.Highest, other)
		}
		m.outstanding[slot] = c
	}
	m.inFlight = append(m.inFlight, c)
}

// receiveReply gives the client the reply to a call, unless it is lost.
func (m *slotModel) receiveReply(c *slotCall, limits SlotLimits) {
	if c.replied || m.r.IntN(3) == 0 {
		return
	}
	c.replied = true
	m.limits = limits
	m.sequence[c.Slot] = c.Sequence
	delete(m.outstanding, c.Slot)
}

// deliverCall lets a copy of a call arrive.
func (m *slotModel) deliverCall() {
	if len(m.inFlight) == 0 {
		return
	}
	i := m.r.IntN(len(m.inFlight))
	c := m.inFlight[i]
	m.inFlight[i] = m.inFlight[len(m.inFlight)-1]
	m.inFlight = m.inFlight[:len(m.inFlight)-1]
	a := c.Sequenced
	a.Conn = m.r.IntN(2)
	switch o := m.Begin(m.session, &a); {
	case o.New:
		c.executed++
		want(m.t, "executions", c.executed, 1)
		m.running = append(m.running, c)
	case o.Replay != nil:
		want(m.t, "reply", binary.BigEndian.Uint64(o.Replay), c.id)
		m.receiveReply(c, m.session.SlotLimits())
	case o.Status == nfs4.ErrBadSlot && c.executed == 0 && c.Sequence == m.sequence[c.Slot]+1:
	case o.Retry == nil && !c.replied:
		m.t.Fatalf("outstanding call %+v: %+v", c, o)
	}
}

// finishCall ends a running call.
func (m *slotModel) finishCall() {
	if len(m.running) == 0 {
		return
	}
	i := m.r.IntN(len(m.running))
	c := m.running[i]
	m.running[i] = m.running[len(m.running)-1]
	m.running = m.running[:len(m.running)-1]
	limits := m.session.SlotLimits() // as if it had begun now
	limits.Target = max(limits.Target, m.limits.Target-m.r.Uint32N(m.limits.Target+1))
	m.session.End(c.Slot, binary.BigEndian.AppendUint64(nil, c.id), true, false)
	m.receiveReply(c, limits)
}

// TestSlotSchedules checks that each call is executed once, and that no reply is lost which the
// client may request again, while the number of slots changes with use and with the memory that
// others take.
//
// R8881-2.10.6-1, R8881-2.10.6.1-13.
func TestSlotSchedules(t *testing.T) {
	for seed := range uint64(racetest.Schedules(100)) {
		w := newTestState(t)
		m := &slotModel{
			testState: w, r: rand.New(rand.NewPCG(seed, 1)), session: w.newSlotClient(1, "c"), limits: SlotLimits{63, 63},
			sequence: make(map[uint32]uint32), outstanding: make(map[uint32]*slotCall),
		}
		others := w.newSlotClient(1, "others")
		group, free := others.client.group, replyMemory/2-others.client.group.usage.get(replyBytes)
		taken, seen := 0, make(map[uint32]bool)
		for range 4000 {
			switch n := m.r.IntN(100); {
			case n < 30:
				m.sendCall()
			case n < 65:
				m.deliverCall()
			case n < 97:
				m.finishCall()
			default:
				change := -taken
				if m.r.IntN(2) == 0 {
					change += m.r.IntN(free + 1)
				}
				taken += change
				w.State.mu.Lock()
				w.addUsage(group, replyBytes, change)
				w.State.mu.Unlock()
				w.advanceClock(time.Duration(m.r.Int64N(int64(testLease))))
				w.TrimSlots(1)
				checkSlots(t, m.session)
				want(t, "reply memory", w.usage.get(replyBytes), m.session.replyCost+others.replyCost+taken)
				seen[m.session.reserved] = true
				m.load = 1 << m.r.Uint32N(9)
			}
		}
		if seed == 0 && len(seen) < 4 {
			t.Errorf("only %d numbers of slots have occurred", len(seen))
		}
	}
}
