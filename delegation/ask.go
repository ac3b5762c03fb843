package delegation

import (
	"errors"
	"fmt"
	"time"
)

// The Holder's errors, each a reason to end the connection.
var (
	// ErrSlot: the server names a slot outside its region.
	ErrSlot = errors.New("delegation: unknown slot")
	// ErrTwice: the server repeats a grant or a recall.
	ErrTwice = errors.New("delegation: granted or recalled twice")
)

// An Asking is an ACQUIRE under way.
type Asking struct{ seq uint64 }

// Ask says that the caller is about to send an ACQUIRE. If Ask returns true,
// the caller must post op first. Granted or NotGranted must follow, even if no
// goroutine waits for the reply any more; otherwise the server would count as
// used a grant unknown to the client.
func (h *Holder) Ask(op *Op, now time.Duration) (Asking, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking++
	renew := h.renew(op, now)
	h.seq++
	return Asking{h.seq}, renew
}

// NotGranted says that an ACQUIRE brought no grant.
func (h *Holder) NotGranted(Asking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked()
}

func (h *Holder) asked() {
	if h.asking--; h.asking == 0 {
		clear(h.early) // no reply can bring these any more
	}
}

// Granted records the result of an ACQUIRE, with StatusOK. If a recall overtook
// the reply, the grant is void and the returned delegation nil (rule b).
// Otherwise the delegation has one user, for whom the caller must call Close.
func (h *Holder) Granted(a Asking, res *AcquireRes) (*Delegation, Posts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gt := Grant{res.Slot, res.Generation}
	_, gone := h.early[gt]
	delete(h.early, gt)
	h.asked()
	switch {
	case res.Slot == LeaseWord || res.Slot >= h.words:
		return nil, Posts{}, fmt.Errorf("%w: %d of %d", ErrSlot, res.Slot, h.words)
	case h.over || gone || a.seq <= h.voidedTo:
		return nil, Posts{}, nil
	}
	s := h.slot(res.Slot)
	if old := s.d; old != nil {
		if old.state == recalled || old.Generation == res.Generation {
			return nil, Posts{}, fmt.Errorf("%w: slot %d", ErrTwice, res.Slot)
		}
		h.leave(old, void) // was unused, and so reclaimed
		s = h.slot(res.Slot)
	}
	d := &Delegation{Slot: res.Slot, Generation: res.Generation, Types: res.Types, opens: true, users: 1}
	d.good.Store(a.seq > h.run) // otherwise the server may have ended the grant before the lease was trusted again
	s.d = d
	h.held++
	h.shorten(time.Duration(res.LeaseMS) * time.Millisecond)
	return d, h.posts(), nil
}

// Immediate handles Immediate Data of the server: the recall of a grant.
func (h *Holder) Immediate(word [8]byte) (Posts, error) {
	m, err := ParseImmediate(word, KindRecall)
	if err != nil {
		return Posts{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return Posts{}, nil
	}
	if m.Slot == LeaseWord || m.Slot >= h.words {
		return Posts{}, fmt.Errorf("%w: %d of %d", ErrSlot, m.Slot, h.words)
	}
	s := h.slot(m.Slot)
	if d := s.d; d != nil && d.Generation == m.Generation {
		if d.state == recalled {
			return Posts{}, fmt.Errorf("%w: slot %d", ErrTwice, m.Slot)
		}
		h.leave(d, recalled)
		return h.posts(), nil
	}
	h.unknown(s, m)
	return h.posts(), nil
}

// unknown answers the recall of an unknown grant (rule b): its ACQUIRE is under
// way, or its delegation is void already. The answer waits only for operations
// on the slot (rule e), which belong to an older grant that has ended
// unnoticed.
func (h *Holder) unknown(s *slot, m Immediate) {
	if h.asking > 0 {
		if len(h.early) == maxEarly {
			clear(h.early)
			h.voidedTo = h.seq
		}
		h.early[Grant{m.Slot, m.Generation}] = struct{}{}
	}
	s.owed = append(s.owed, m.Generation)
	if s.d != nil {
		h.leave(s.d, void) // also answers the recall
		return
	}
	h.answerRecalls(m.Slot, s)
}

// Dropped says that nothing is served under a recalled delegation any more,
// including by callers to which an earlier verdict permitted it.
func (h *Holder) Dropped(d *Delegation) Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slots[d.Slot]
	if d.state != recalled || s == nil || s.d != d {
		return Posts{}
	}
	d.state, s.d = void, nil
	h.held--
	s.owed = append(s.owed, d.Generation)
	h.answerRecalls(d.Slot, s)
	return h.posts()
}
