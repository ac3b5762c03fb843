package delegation

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a Holder: reason to end the connection.
var (
	// ErrSlot: the server names a slot that its region does not have.
	ErrSlot = errors.New("delegation: no such slot")
	// ErrTwice: the server grants or recalls what it has granted or recalled.
	ErrTwice = errors.New("delegation: granted or recalled twice")
)

// An Asking is an ACQUIRE under way.
type Asking struct{ seq uint64 }

// Ask says that an ACQUIRE is about to be sent. Where it returns true, op is to be
// posted before that. Granted or NotGranted must follow, also where nobody waits for
// the reply any more: or the server would take for used what nobody knows of.
func (h *Holder) Ask(op *Op, now time.Duration) (Asking, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking++
	renew := h.renew(op, now)
	h.seq++
	return Asking{h.seq}, renew
}

// NotGranted says that an ACQUIRE has brought nothing.
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

// Granted takes what an ACQUIRE has brought, of StatusOK. The delegation is nil
// where that is void, since it has been recalled before it came (rule b). It has
// one user, for whom Close is to be called.
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
		h.leave(old, void) // unused, and so reclaimed
		s = h.slot(res.Slot)
	}
	d := &Delegation{Slot: res.Slot, Generation: res.Generation, Types: res.Types, opens: true, users: 1}
	d.good.Store(a.seq > h.run) // else the server may have ended it before the lease was trusted again
	s.d = d
	h.held++
	h.shorten(time.Duration(res.LeaseMS) * time.Millisecond)
	return d, h.posts(), nil
}

// Immediate takes Immediate Data of the server: it recalls a grant.
func (h *Holder) Immediate(octets [8]byte) (Posts, error) {
	m, err := ParseImmediate(octets, KindRecall)
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

// unknown answers the recall of a grant that is not known (rule b): its ACQUIRE is
// under way, or its delegation is void already. Only operations on the slot are
// waited for (rule e): those for an older grant, which has ended unnoticed.
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
		h.leave(s.d, void) // and settles
		return
	}
	h.answerRecalls(m.Slot, s)
}

// Dropped says that nothing is served under a recalled delegation any more, and
// that nobody who has been told otherwise is left.
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
