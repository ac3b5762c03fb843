package delegation

import (
	"errors"
	"fmt"
	"time"
)

// The Holder's errors. After each, the caller must close the connection.
var (
	// ErrSlot means that the server named a slot outside its region.
	ErrSlot = errors.New("delegation: unknown slot")
	// ErrRepeated means that the server repeated a grant or a recall.
	ErrRepeated = errors.New("delegation: granted or recalled twice")
)

// A PendingAcquire identifies an ACQUIRE in flight.
type PendingAcquire struct{ seq uint64 }

// BeginAcquire must be called before the caller sends an ACQUIRE. If it returns
// true, the caller must post op first. The caller must call Granted or
// NotGranted with the reply, even if no goroutine waits for it any more;
// otherwise the server would count a grant as used that the client does not
// know.
func (h *Holder) BeginAcquire(op *Op, now time.Duration) (PendingAcquire, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acquiresInFlight++
	renew := h.prepareRenewal(op, now)
	h.lastSeq++
	return PendingAcquire{h.lastSeq}, renew
}

// NotGranted must be called for an ACQUIRE that was not granted.
func (h *Holder) NotGranted(PendingAcquire) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finishAcquire()
}

func (h *Holder) finishAcquire() {
	if h.acquiresInFlight--; h.acquiresInFlight == 0 {
		clear(h.earlyRecalls) // no further reply can contain these grants
	}
}

// Granted records the result of an ACQUIRE, with StatusOK. If a recall overtook
// the reply, the grant is void and the returned delegation nil (rule b).
// Otherwise the delegation has one use, which the caller must end with Close.
func (h *Holder) Granted(a PendingAcquire, res *AcquireRes) (*Delegation, Posts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gt := Grant{res.Slot, res.Generation}
	_, wasRecalled := h.earlyRecalls[gt]
	delete(h.earlyRecalls, gt)
	h.finishAcquire()
	switch {
	case res.Slot == LeaseWord || res.Slot >= h.wordCount:
		return nil, Posts{}, fmt.Errorf("%w: %d of %d", ErrSlot, res.Slot, h.wordCount)
	case h.ended || wasRecalled || a.seq <= h.voidedUpTo:
		return nil, Posts{}, nil
	}
	s := h.slotAt(res.Slot)
	if old := s.delegation; old != nil {
		if old.state == stateRecalled || old.Generation == res.Generation {
			return nil, Posts{}, fmt.Errorf("%w: slot %d", ErrRepeated, res.Slot)
		}
		h.dropDelegation(old, stateVoid) // was unused, so the server reclaimed it
		s = h.slotAt(res.Slot)
	}
	d := &Delegation{Slot: res.Slot, Generation: res.Generation, Types: res.Types, isOpen: true, userCount: 1}
	d.confirmed.Store(a.seq > h.trustSeq) // otherwise the server may have revoked the grant before the lease was trusted again
	s.delegation = d
	h.delegationCount++
	h.adoptLease(time.Duration(res.LeaseMS) * time.Millisecond)
	return d, h.takePosts(), nil
}

// Immediate handles Immediate Data from the server: the recall of a grant.
func (h *Holder) Immediate(word [8]byte) (Posts, error) {
	m, err := ParseImmediate(word, KindRecall)
	if err != nil {
		return Posts{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return Posts{}, nil
	}
	if m.Slot == LeaseWord || m.Slot >= h.wordCount {
		return Posts{}, fmt.Errorf("%w: %d of %d", ErrSlot, m.Slot, h.wordCount)
	}
	s := h.slotAt(m.Slot)
	if d := s.delegation; d != nil && d.Generation == m.Generation {
		if d.state == stateRecalled {
			return Posts{}, fmt.Errorf("%w: slot %d", ErrRepeated, m.Slot)
		}
		h.dropDelegation(d, stateRecalled)
		return h.takePosts(), nil
	}
	h.answerUnknownRecall(s, m)
	return h.takePosts(), nil
}

// answerUnknownRecall replies to the recall of an unknown grant (rule b): its
// ACQUIRE is in flight, or its delegation is already void. The answer waits
// only for operations on the slot (rule e), which belong to an older grant that
// the server has ended without a recall.
func (h *Holder) answerUnknownRecall(s *slotState, m Immediate) {
	if h.acquiresInFlight > 0 {
		if len(h.earlyRecalls) == maxEarly {
			clear(h.earlyRecalls)
			h.voidedUpTo = h.lastSeq
		}
		h.earlyRecalls[Grant{m.Slot, m.Generation}] = struct{}{}
	}
	s.owedReturns = append(s.owedReturns, m.Generation)
	if s.delegation != nil {
		h.dropDelegation(s.delegation, stateVoid) // also answers the recall
		return
	}
	h.answerRecalls(m.Slot, s)
}

// Dropped must be called when nothing more is served under a recalled
// delegation, even by callers with an earlier verdict that permitted it.
func (h *Holder) Dropped(d *Delegation) Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slots[d.Slot]
	if d.state != stateRecalled || s == nil || s.delegation != d {
		return Posts{}
	}
	d.state, s.delegation = stateVoid, nil
	h.delegationCount--
	s.owedReturns = append(s.owedReturns, d.Generation)
	h.answerRecalls(d.Slot, s)
	return h.takePosts()
}
